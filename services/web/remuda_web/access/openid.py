"""An OpenID provider (OpenID Connect Core 1.0): which operator its tokens name.

Its tokens are JWTs. A program sends one as its bearer token. The login of a person (`login`) ends with one, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import httpx2
from authlib.integrations.starlette_client import OAuth
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from remuda_bus.status_codes import UNAVAILABLE
from remuda_operations.operators import Operator, operator_with, usable_groups
from remuda_web import limits
from remuda_web.problems import Problem
from remuda_web.settings import WebSettings

# Signatures that the provider alone can make. With the others, whoever can check one can make one.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
# Kinds of JWTs that say who somebody is: not those of a logout, for example, which have the same issuer and audience.
KINDS: Final = ("", "jwt", "at+jwt", "application/at+jwt")


class Provider:
    """`client`: of authlib, for the login."""

    def __init__(self, settings: WebSettings) -> None:
        assert settings.openid_issuer is not None
        self._issuer = settings.openid_issuer
        self._name_claim, self._groups_claim = settings.openid_name, settings.openid_groups
        self._claims = jwt.JWTClaimsRegistry(
            leeway=limits.CLOCK_SKEW_S, exp={"essential": True},
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": settings.openid_audience or settings.openid_client},
        )  # fmt: skip
        secret = settings.openid_secret
        self.client = OAuth().register(
            "openid", client_id=settings.openid_client,
            client_secret=None if secret is None else secret.read_text().strip(),
            server_metadata_url=f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": settings.openid_scope, "code_challenge_method": "S256", "timeout": limits.PROVIDER_WITHIN_S,
                **({"token_endpoint_auth_method": "none"} if secret is None else {}),
            },
        )  # fmt: skip
        self._keys: KeySet | None = None
        self._read_at = 0.0
        self._failed: tuple[float, str] | None = None  # when the keys could not be read, and why
        self._reading = asyncio.Lock()

    async def operator(self, token: str) -> Operator | None:
        """The operator of a bearer token. None: it is no JWT. Raises Problem: 401 for a JWT that is not valid here, 403
        for a name that no operator can have, 503 when the provider does not answer."""
        if token.count(".") != 2 or len(token) > limits.JWT_CHARACTERS:
            return None
        return self.operator_in(await self._claims_of(token))

    def operator_in(self, claims: Mapping[str, Any]) -> Operator:
        """Raises Problem."""
        name, groups = claims.get(self._name_claim), claims.get(self._groups_claim) or ()
        if not isinstance(name, str):
            raise Problem(403, f"the token has no claim {self._name_claim!r} with the name of the operator")
        given = [groups] if isinstance(groups, str) else groups if isinstance(groups, (list, tuple)) else ()
        try:
            return operator_with(name, usable_groups(group for group in given if isinstance(group, str)))
        except ValueError as error:
            raise Problem(403, f"the claim {self._name_claim!r}: {error}") from None

    async def _claims_of(self, token: str) -> dict[str, Any]:
        try:
            try:
                found = jwt.decode(token, await self._key_set(limits.PROVIDER_KEYS_KEPT_S), algorithms=ALGORITHMS)
            except InvalidKeyIdError:  # the provider may have a new key
                found = jwt.decode(token, await self._key_set(limits.PROVIDER_KEYS_EVERY_S), algorithms=ALGORITHMS)
            if str(found.header.get("typ", "")).lower() not in KINDS:
                raise Problem(401, "the bearer token is a JWT for something else")
            self._claims.validate(found.claims)
        except (JoseError, ValueError, TypeError) as error:  # TypeError: a member of the header has another type
            raise Problem(401, f"the bearer token is not valid: {error}") from None
        return found.claims

    async def _key_set(self, kept_s: float) -> KeySet:
        """The keys of the provider, at most that old. Raises Problem."""
        found = self._kept(kept_s)
        if found is None:
            async with self._reading:  # one reads, the others wait for its answer
                found = self._kept(kept_s) or await self._read()
        return found

    def _kept(self, kept_s: float) -> KeySet | None:
        return self._keys if asyncio.get_running_loop().time() - self._read_at < kept_s else None

    async def _read(self) -> KeySet:
        """Does not ask again right after a failure: anyone can make tokens that need the keys. Raises Problem."""
        now = asyncio.get_running_loop().time()
        if self._failed is not None and now - self._failed[0] < limits.PROVIDER_RETRY_S:
            raise unavailable(self._failed[1])
        try:
            self.check_metadata(await self.client.load_server_metadata())
            self._keys = KeySet.import_key_set(await self.client.fetch_jwk_set(force=True))
        except (httpx2.HTTPError, RuntimeError, ValueError, JoseError) as error:
            self._failed = (asyncio.get_running_loop().time(), _said(error))
            raise unavailable(self._failed[1]) from None
        self._read_at = now
        return self._keys

    def check_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Raises ValueError when they are of another issuer."""
        if metadata.get("issuer") != self._issuer:
            raise ValueError(f"its issuer is {metadata.get('issuer')!r}, expected {self._issuer!r}")


def unavailable(reason: str | Exception) -> Problem:
    return Problem(UNAVAILABLE, f"the OpenID provider does not answer as expected: {_said(reason)}")


def _said(reason: str | Exception) -> str:
    return str(reason) or type(reason).__name__
