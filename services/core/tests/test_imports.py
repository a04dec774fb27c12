"""No module of the core imports another that leads back to it, not even for type checking only."""

from __future__ import annotations

import graphlib

import grimp


def test_imports_of_the_core_go_in_no_circle() -> None:
    graph = grimp.build_graph("remuda_core", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # CycleError names the modules
