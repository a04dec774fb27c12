#!/bin/bash
# Builds a Kubernetes control plane from Debian's packages: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl.
#
# Nothing is installed in the system: packages are unpacked. The Debian mirror is the one in the machine's apt sources. The result is
# kept outside of the repository, in $REMUDA_CONTROL_PLANES (~/.cache/remuda/kubernetes)/<version>/bin, and built once: some 5 minutes
# on two cores. Prints that directory. Needs Debian 12 or newer, patch, openssl.
set -euo pipefail

VERSION=1.20.2
SOURCE=1.20.5+really1.20.2-1.1+deb12u1  # the last version whose Debian source holds the whole control plane
GO=1.19
TARGET=${REMUDA_CONTROL_PLANES:-$HOME/.cache/remuda/kubernetes}/$VERSION
PROGRAMS="kube-apiserver kube-scheduler kube-controller-manager"

if [ -e "$TARGET/complete" ]; then
  echo "$TARGET/bin"
  exit
fi
mkdir -p "$TARGET"
exec 9>"$TARGET/lock" 3>&1 1>&2  # the build prints to standard error, the result goes to standard output
flock 9
if [ -e "$TARGET/complete" ]; then
  echo "$TARGET/bin" >&3
  exit
fi
work=$TARGET/work
rm -rf "$work"
mkdir -p "$work"/{apt/lists/partial,apt/cache/archives/partial,src,deb} "$TARGET/bin"
cd "$work"

# A private view of the mirror: the machine's apt is left alone.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' | grep -v security | sort -u | head -n 1)
test -n "$mirror" || { echo "build.sh: no Debian mirror in the sources of apt"; exit 1; }
signed='signed-by=/usr/share/keyrings/debian-archive-keyring.gpg'
{
  echo "deb [$signed] $mirror bookworm main"
  echo "deb-src [$signed] $mirror bookworm main"
  echo "deb [$signed] $mirror trixie main"
} > apt/sources.list
cat > apt/conf <<CONF
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
APT::Sandbox::User "";
CONF
export APT_CONFIG=$work/apt/conf
apt-get update -q
cd src
apt-get source -q --download-only "kubernetes=$SOURCE"
apt-get download -q golang-$GO-go/bookworm golang-$GO-src/bookworm golang-github-modern-go-reflect2-dev/bookworm \
  etcd-server/trixie kubectl/trixie
for package in *.deb; do dpkg -x "$package" "$work/deb"; done
cp "$work"/deb/usr/bin/{etcd,kubectl} "$TARGET/bin/"
tar xf kubernetes_*.orig.tar.gz
tar xf kubernetes_*.debian.tar.xz
tree=$work/src/kubernetes-$VERSION
grep -v '^#' debian/patches/series | while read -r name; do patch -d "$tree" -p1 -s < "debian/patches/$name"; done

# The vendored reflect2 crashes with Go 1.18 and later at the first mutating webhook; Debian's package of it does not.
reflect=$tree/vendor/github.com/modern-go/reflect2
rm -f "$reflect"/*.go "$reflect"/*.s
cp "$work"/deb/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$reflect/"

export GOROOT=$work/deb/usr/lib/go-$GO PATH=$work/deb/usr/lib/go-$GO/bin:$PATH
export GO111MODULE=off CGO_ENABLED=0 GOFLAGS= GOPATH=$work/gopath GOCACHE=$work/gocache
mkdir -p "$GOPATH/src/k8s.io"
ln -sfn "$tree" "$GOPATH/src/k8s.io/kubernetes"
cd "$GOPATH/src/k8s.io/kubernetes"

# The one generated file that the source package lacks.
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
directories=$(grep --include='*.go' -rl '+k8s:openapi-gen=' staging/src/k8s.io pkg | xargs -n1 dirname |
  sed -E 's#^staging/src/##; s#^pkg#k8s.io/kubernetes/pkg#' |
  grep -vE '/code-generator/|/sample-apiserver/|/kube-openapi/|/pkg/apis/example' | sort -u | paste -sd,)
"$work/openapi-gen" -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt -i "$directories" \
  -p k8s.io/kubernetes/pkg/generated/openapi -r "$work/violations" --output-base "$GOPATH/src"

flags='-s -w'
for package in component-base/version client-go/pkg/version; do
  for value in gitVersion=v$VERSION gitMajor=1 gitMinor=20; do
    flags="$flags -X k8s.io/kubernetes/vendor/k8s.io/$package.$value"
  done
done
for program in $PROGRAMS; do
  echo "building $program ..."
  go build -p 2 -ldflags "$flags" -o "$TARGET/bin/$program" "./cmd/$program"
done
cd /
chmod -R u+w "$work"
rm -rf "$work"
touch "$TARGET/complete"
echo "$TARGET/bin" >&3
