"""A model repository at one commit: what it lists, and its bytes. The only importer of huggingface_hub.

Downloads are plain ranged reads, and not the library's own: it drops what has arrived when it ends, and refuses a
file of more than 50 GB in one answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from httpx2 import HTTPError, Response
from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError, OptionError, ShoalError
from shoal.pull.remote_file import Digest, RemoteFile, check_path

LONGEST_WAIT_SECONDS = 300.0
_PARTIAL, _NOT_SATISFIABLE = 206, 416
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_LIBRARY = "shoal"


class ConnectionLostError(Exception):
    """The answer ended early or never began; what did arrive is good. `wait_seconds` is what the hub asks for."""

    def __init__(self, reason: str, wait_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


@dataclass(frozen=True)
class Repository:
    """`files` are those of `commit`, by path. `endpoint` None is the library's own."""

    name: str
    commit: str
    files: tuple[RemoteFile, ...]
    endpoint: str | None

    def find(self, path: str) -> RemoteFile | None:
        """The file of this path, if it is listed."""
        return next((file for file in self.files if file.path == path), None)

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """Bytes `start` to `end` of a file; beyond `end` where the hub will not send a piece.

        Raises ConnectionLostError for what may pass, CheckpointError when the file is not as it was listed, and
        OptionError when the hub refuses.
        """
        headers = build_hf_headers(library_name=_LIBRARY) | {
            "Accept-Encoding": "identity",
            "Range": f"bytes={start}-{end - 1}",
        }
        url = hf_hub_url(self.name, file.path, revision=self.commit, endpoint=self.endpoint)
        timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        try:
            with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
                if response.status_code == _NOT_SATISFIABLE:
                    raise _resized(file, self, "less")
                hf_raise_for_status(response)
                skip = start - _first_byte(response, file, self, start)
                # Chunks as they come: collected into larger ones, those before a break would be lost.
                for chunk in response.iter_bytes():
                    if skip < len(chunk):
                        yield chunk[skip:]
                    skip = max(0, skip - len(chunk))
        except (HTTPError, OfflineModeIsEnabled) as problem:
            raise self._problem(problem, file) from None

    def read_whole(self, file: RemoteFile) -> bytes:
        """All bytes of a small file. Raises CheckpointError when they are not what was listed, and OptionError."""
        try:
            content = b"".join(self.read(file, 0, file.nbytes)) if file.nbytes else b""
        except ConnectionLostError as problem:
            raise OptionError(f"{quoted(file.path)} did not arrive: {problem}", hint="run the command again") from None
        hasher = file.digest.hasher(file.nbytes) if file.digest else None
        if hasher:
            hasher.update(content)
        if len(content) != file.nbytes or (hasher and file.digest and hasher.hexdigest() != file.digest.hex):
            raise CheckpointError(f"{quoted(file.path)} arrived damaged", hint="run the command again")
        return content

    def _problem(self, problem: HTTPError | OfflineModeIsEnabled, file: RemoteFile) -> Exception:
        if not isinstance(problem, HfHubHTTPError):
            if isinstance(problem, HTTPError):
                return ConnectionLostError(_reason(problem))
            return _refusal(problem, self.name, self.commit, self.endpoint)
        status = problem.response.status_code
        if status in _TRANSIENT:
            return ConnectionLostError(f"HTTP {status}", _retry_after(problem.response))
        if status == 404:
            return CheckpointError(f"{quoted(self.name)} lists {quoted(file.path)} but does not have it: HTTP 404")
        return _refusal(problem, self.name, self.commit, self.endpoint)


def open_repository(name: str, revision: str | None = None, endpoint: str | None = None) -> Repository:
    """The model repository `name` at `revision`, a branch, tag or commit; None is its main branch.

    Raises OptionError when there is no such repository or it cannot be reached, CheckpointError for a listing
    that cannot be used.
    """
    try:
        info = HfApi(endpoint=endpoint, library_name=_LIBRARY).model_info(
            name, revision=revision, files_metadata=True, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
        )
    except HFValidationError as problem:
        raise OptionError(f"{quoted(name)} is no name of a repository: {problem}") from None
    except (HTTPError, OfflineModeIsEnabled) as problem:
        raise _refusal(problem, name, revision, endpoint) from None
    except (ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(f"the listing of {quoted(name)} cannot be read: {problem}") from None
    if not info.sha or not info.siblings:
        raise CheckpointError(f"the listing of {quoted(name)} has no commit or no files, expected both")
    files = sorted((_remote_file(name, sibling) for sibling in info.siblings), key=lambda file: file.path)
    return Repository(name, info.sha, tuple(files), endpoint)


def _remote_file(name: str, sibling: RepoSibling) -> RemoteFile:
    path, nbytes = sibling.rfilename, sibling.size
    check_path(path, name)
    if not isinstance(nbytes, int) or nbytes < 0:
        raise CheckpointError(f"the listing of {quoted(name)} has no size of {quoted(path)}, expected its bytes")
    if sibling.lfs:
        return RemoteFile(path, nbytes, Digest("sha256", sibling.lfs["sha256"]))
    return RemoteFile(path, nbytes, Digest("git", sibling.blob_id) if sibling.blob_id else None)


def _first_byte(response: Response, file: RemoteFile, repository: Repository, start: int) -> int:
    """Where the answer begins: `start`, or 0 where the hub sends the whole file. Raises CheckpointError."""
    if response.status_code != _PARTIAL:
        length = response.headers.get("Content-Length", str(file.nbytes))
        if length != str(file.nbytes):
            raise _resized(file, repository, length)
        return 0
    unit, _, extent = response.headers.get("Content-Range", "").partition(" ")
    first, _, total = extent.partition("-")[0], *extent.partition("/")[1:]
    if total != str(file.nbytes):
        raise _resized(file, repository, total or "an unknown number of")
    if unit != "bytes" or first != str(start):
        raise ConnectionLostError(f"asked for byte {start:,} of {quoted(file.path)}, got {quoted(extent)}")
    return start


def _resized(file: RemoteFile, repository: Repository, found: str) -> CheckpointError:
    where = f"{quoted(repository.name)} at {repository.commit[:12]}"
    return CheckpointError(
        f"{where} sends {quoted(file.path)} with {found} bytes, expected the {file.nbytes:,} that it lists"
    )


def _refusal(
    problem: HTTPError | OfflineModeIsEnabled, name: str, revision: str | None, endpoint: str | None
) -> ShoalError:
    hub = endpoint or constants.ENDPOINT
    if isinstance(problem, OfflineModeIsEnabled):
        return OptionError(
            f"offline mode is on, expected the network to fetch {quoted(name)}", hint="unset `HF_HUB_OFFLINE`"
        )
    if isinstance(problem, GatedRepoError):
        return OptionError(f"{quoted(name)} at {quoted(hub)} is gated", hint=f"accept its terms on its page; {_LOG_IN}")
    if isinstance(problem, RepositoryNotFoundError):
        found = f"found no repository {quoted(name)} at {quoted(hub)}, or it is private"
        return OptionError(f"{found}: HTTP {problem.response.status_code}", hint=f"check the name; {_LOG_IN}")
    if isinstance(problem, RevisionNotFoundError):
        return OptionError(f"{quoted(name)} has no revision {quoted(revision)}, expected a branch, tag or commit")
    if isinstance(problem, HfHubHTTPError):
        status = problem.response.status_code
        hint = _LOG_IN if status in (401, 403) else None
        return OptionError(f"{quoted(hub)} answers HTTP {status} for {quoted(name)}", hint=hint)
    return OptionError(f"cannot reach {quoted(hub)} for {quoted(name)}: {_reason(problem)}")


def _reason(problem: HTTPError) -> str:
    """What the transport says, which is sometimes nothing."""
    return str(problem) or type(problem).__name__


def _retry_after(response: Response) -> float:
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_WAIT_SECONDS) if text.isdecimal() else 0.0


_LOG_IN = "a repository that is not public needs `hf auth login` or `HF_TOKEN`"
