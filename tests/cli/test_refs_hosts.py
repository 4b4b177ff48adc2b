"""Ledgers in git refs among the users' own settings, clones and remotes, with the installed command and real git."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.carried import SENT, CarriedClone, Origin, agree, count_git
from support.clones import ACTIVE, RUN
from support.program import make_program
from support.project import usual_state
from support.sizes import pick

FETCHED = "refs/faber-ledger-remotes/origin/"


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone with a run that has one session, of which nothing was sent."""
    return CarriedClone.started(tmp_path / "one")


def exchange(one: CarriedClone, two: CarriedClone) -> None:
    """Let both record and send, and check that each has all of it."""
    one.sync()
    before = two.refs(SENT)
    two.sync("--fetch")
    assert two.refs(SENT) == before
    two.work("by two")
    assert two.synced()["sent"] > 0
    one.sync()
    assert {"first", "by two"} <= one.clients()
    assert one.origin.ids() == one.log_ids() == two.log_ids()
    assert not (two.root / ".git/FETCH_HEAD").exists()


# Remotes


def test_a_ledger_goes_to_the_agreed_remote_alone(one: CarriedClone) -> None:
    fork = Origin.made(one.root.parent / "fork.git")
    one.git("remote", "add", "fork", str(fork.root))
    one.sync()
    assert (one.origin.has(one), fork.heads()) == (True, {})
    agree(one.root, "fork")
    one.sync()
    assert fork.has(one)
    assert "not sent" not in one.faber("status").stdout
    one.work("second")
    one.sync()
    assert fork.has(one)
    assert not one.origin.has(one)


def test_a_mirrors_push_deletes_the_refs_and_the_next_sync_restores_them(one: CarriedClone) -> None:
    one.add_run("shop-1")
    one.sync()
    one.git("clone", "-q", str(one.origin.root), "../plain")
    plain = CarriedClone(one.root.parent / "plain")
    plain.git("push", "-q", "--mirror", "origin")
    assert one.origin.heads() == {}
    said = one.sync().stdout
    assert said.count("origin had lost its ref, which is there again") == 2
    assert one.origin.has(one)
    assert one.origin.has(one, "shop-1")


def test_a_push_url_of_another_repository_is_said(one: CarriedClone) -> None:
    other = Origin.made(one.root.parent / "other.git")
    one.git("config", "remote.origin.pushurl", str(other.root))
    one.sync()
    one.work("second")
    assert "or its push URL is another repository than its URL" in one.sync(code=14).stdout
    one.git("config", "remote.origin.url", str(other.root))
    one.sync()
    assert other.has(one)
    one.git("config", "remote.origin.url", str(one.origin.root))
    for name, value in (("remote.origin.pushurl", other.root), (f"url.{other.root}.pushInsteadOf", one.origin.root)):
        one.git("config", "--unset-all", "remote.origin.pushurl")
        one.git("config", name, str(value))
        said = one.faber("init", "--git-only", "--carry", "refs", "--no-auto-send").stderr
        assert f"sends its ledgers to origin, that is to its push URL {other.root}, where" in said


def test_a_mended_repository_sends_again(one: CarriedClone) -> None:
    one.sync()
    for ref in one.refs("refs/faber-ledger").splitlines():
        one.git("update-ref", "-d", ref.split()[0])
    one.git("-c", "gc.pruneExpire=now", "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
    one.work("second")
    one.sync()
    assert one.origin.has(one)
    assert int(one.origin.git("rev-list", "--count", SENT + RUN)) == 2


# Clones


@pytest.mark.parametrize(
    "option", ["--depth=1", "--filter=blob:none", "--filter=tree:0", "--single-branch", "--mirror"]
)
def test_a_clone_that_has_not_all_exchanges_all(one: CarriedClone, option: str) -> None:
    one.origin.git("config", "uploadpack.allowFilter", "true")
    one.sync()
    if option == "--mirror":
        two = one.second("two")
        two.git("config", "remote.origin.mirror", "true")
        two.git("config", "remote.origin.fetch", "+refs/*:refs/*")
    else:
        two = one.second("two", option)
    is_shallow = two.git("rev-parse", "--is-shallow-repository")
    exchange(one, two)
    assert two.git("rev-parse", "--is-shallow-repository") == is_shallow
    one.origin.root.rename(one.root.parent / "away.git")
    two.git("cat-file", "-e", f"{SENT}{RUN}:ledger.db")
    two.git("cat-file", "-e", f"{FETCHED}{RUN}:ledger.db")


def test_a_shallow_clone_lists_and_takes_a_run(one: CarriedClone) -> None:
    one.add_run("shop-1")
    one.sync()
    two = one.second("two", "--depth=1")
    before = two.refs()
    assert "shop-1" in two.faber("run", "list", "--remote").stdout
    assert two.refs() == before
    assert (two.root / ".git/shallow").exists()
    two.faber("run", "resume", "shop-1", "--yes")
    assert json.loads((two.root / ".fractary/runs/shop-1/state.json").read_text())["work_id"] == "7"


def test_linked_work_trees_send_one_ref(one: CarriedClone) -> None:
    one.sync()
    one.git("worktree", "add", "-q", "../tree", "-b", "tree")
    tree = CarriedClone(one.root.parent / "tree")
    tree.name_run()
    tree.deliver("session-start", "in the tree", hook_event_name="SessionStart", source="startup")
    tree.sync()
    assert one.origin.has(one)
    assert "in the tree" in one.clients()
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"


def test_a_submodule_is_a_project_of_its_own(one: CarriedClone) -> None:
    one.sync()
    above = CarriedClone(one.root.parent / "above")
    above.root.mkdir()
    above.git("init", "-q")
    above.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(one.origin.root), "project")
    two = CarriedClone(above.root / "project")
    agree(two.root)
    two.name_run()
    assert "1 run" not in two.sync().stdout
    two.deliver("session-start", "in the submodule", hook_event_name="SessionStart", source="startup")
    two.sync()
    one.sync()
    assert "in the submodule" in one.clients()
    assert above.refs("refs/faber-ledger") == ""


def make_project(repository: CarriedClone, name: str, client: str) -> CarriedClone:
    """Make a project below a repository's top, whose run has the same id in each."""
    project = CarriedClone(repository.root / name)
    (project.root / f".fractary/runs/{RUN}").mkdir(parents=True)
    project.put({**usual_state(RUN), "work_id": name})
    (project.root / ACTIVE).parent.mkdir(parents=True)
    project.name_run()
    agree(project.root)
    project.deliver("session-start", client, hook_event_name="SessionStart", source="startup")
    return project


def test_two_projects_of_a_repository_have_their_own_runs(one: CarriedClone) -> None:
    shop, site = make_project(one, "shop", "in shop"), make_project(one, "site", "in site")
    (site.root / f".fractary/runs/{RUN}").rename(site.root / ".fractary/runs/site-1")
    shop.sync()
    shown = shop.faber("run", "list", "--remote").stdout
    assert RUN in shown
    assert "no run matches at the remote" in one.faber("run", "list", "--remote").stdout
    assert "no run matches at the remote" in site.faber("run", "list", "--remote").stdout


def test_a_ref_of_another_project_is_neither_absorbed_nor_replaced(one: CarriedClone) -> None:
    shop, site = make_project(one, "shop", "in shop"), make_project(one, "site", "in site")
    shop.sync()
    heads = shop.origin_above.heads()
    said = site.sync(code=1).stdout
    assert f"{RUN}: not sent: its ref at origin belongs to another run or project" in said
    assert shop.origin_above.heads() == heads
    assert "belongs to another run or project" in site.faber("status").stdout


# The users' own settings


SETTINGS = {
    "prune": ("fetch.prune=true", "fetch.pruneTags=true", "remote.origin.prune=true"),
    "mirror": ("remote.origin.mirror=true",),
    "tags": ("push.followTags=true", "remote.origin.tagOpt=--tags"),
    "signed": ("push.gpgSign=true",),
    "options": ("push.pushOption=ci.skip",),
    "push URL": ("remote.origin.pushurl=file://{origin}",),
    "refspecs": ("remote.origin.push=refs/heads/*", "push.default=nothing"),
    "submodules": ("push.recurseSubmodules=only", "fetch.recurseSubmodules=true"),
    "checked": ("transfer.fsckObjects=true", "fetch.fsckObjects=true"),
    "extras": ("fetch.writeCommitGraph=true", "push.negotiate=true", "push.useForceIfIncludes=true"),
    "output": ("fetch.output=compact", "color.ui=always", "core.quotePath=false", "i18n.logOutputEncoding=latin1"),
    "depth": ("fetch.negotiationAlgorithm=noop", "fetch.parallel=2", "protocol.version=0"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_setting_of_a_user_changes_what_is_sent(one: CarriedClone, name: str) -> None:
    one.git("tag", "-a", "v1", "-m", "v1")
    two = one.second("two")
    one.git("tag", "-a", "v2", "-m", "v2")
    one.git("push", "-q", "origin", "v2")
    before = one.origin.git("for-each-ref", "refs/heads", "refs/tags")
    for clone in (one, two):
        for setting in SETTINGS[name]:
            clone.git("config", *setting.format(origin=one.origin.root).split("=", 1))
    exchange(one, two)
    assert one.origin.git("for-each-ref", "refs/heads", "refs/tags") == before
    assert two.git("tag") == ""


def test_no_hook_of_a_user_stops_a_sending(one: CarriedClone) -> None:
    two = one.second("two")
    for clone in (one, two):
        hooks = clone.root.parent / f"hooks-of-{clone.root.name}"
        for name in ("pre-push", "reference-transaction", "post-update"):
            make_program(hooks / name, "exit 1")
        clone.git("config", "core.hooksPath", str(hooks))
    exchange(one, two)
    two.faber("run", "list", "--remote")


def test_conditional_settings_hold_for_each_question(one: CarriedClone) -> None:
    one.sync()
    home = Path(one.environment["HOME"])
    (home).mkdir(exist_ok=True)
    (home / "work").write_text(f'[url "{one.origin.root}"]\n  insteadOf = work:project\n')
    (home / "config").write_text(f'[includeIf "gitdir:{one.root.parent}/"]\n  path = {home}/work\n')
    one.git("remote", "set-url", "origin", "work:project")
    listed = one.call(*one.command("run", "list", "--remote"), GIT_CONFIG_GLOBAL=str(home / "config"))
    assert RUN in listed.stdout, listed.stderr


@pytest.mark.parametrize("prune", ["true", "false"])
def test_fetch_and_pull_are_as_without_this_program(one: CarriedClone, prune: str) -> None:
    one.sync()
    two = one.second("two")
    one.git("clone", "-q", str(one.origin.root), "../plain")
    plain = CarriedClone(one.root.parent / "plain")
    two.git("add", "-A")
    for clone in (two, plain):
        clone.git("config", "fetch.prune", prune)
    two.sync()
    two.work("unsent 1")
    one.git("push", "-q", "origin", "main:topic")
    for clone in (two, plain):
        clone.git("fetch", "-q")
    two.work("unsent 2")
    one.sync()
    (one.root / "more").write_text("more")
    one.commit("more")
    one.git("tag", "v1")
    one.git("push", "-q", "origin", "main", "v1", ":topic")
    for verb in ("fetch", "pull"):
        done = [clone.call("git", verb, "-q") for clone in (two, plain)]
        assert [each.returncode for each in done] == [0, 0]
        refs = [clone.git("for-each-ref", "refs/heads", "refs/remotes", "refs/tags") for clone in (two, plain)]
        assert refs[0] == refs[1]
        heads = [(clone.root / ".git/FETCH_HEAD").read_text() for clone in (two, plain)]
        assert heads[0].replace("file://", "") == heads[1]
    two.sync()
    assert {"unsent 1", "unsent 2"} <= two.clients()
    assert two.origin.has(two)


# What it costs


@pytest.mark.parametrize("has_metadata", [True, False])
def test_a_sending_starts_three_gits_besides_the_push(one: CarriedClone, has_metadata: bool) -> None:
    if has_metadata:
        (one.state_path.parent / "metadata.json").write_text('{"plan_id": "first"}')
    one.sync()
    one.work("second")
    started = count_git(one, "sync")
    assert one.origin.has(one)
    assert started == ["config", "ls-remote", "fast-import", "push"]
    assert count_git(one, "sync") == ["config", "ls-remote"]
    two = one.second("two")
    two.sync()
    two.work("third")
    two.sync()
    assert count_git(one, "sync") == ["config", "ls-remote", "fetch", "cat-file"]


@pytest.mark.long
def test_many_refs_are_listed_and_left_alone(one: CarriedClone) -> None:
    one.sync()
    count = pick(100, 2000)
    given = [f"blob\nmark :{count + 1}\ndata 1\nx\n"]
    for number in range(1, count + 1):
        message = f"x\n\nRun: shop-{number}\nWork-Item: {number}\n"
        given.append(f"commit {SENT}shop-{number}\nmark :{number}\ncommitter x <x> {number} +0000\n")
        given.append(f"data {len(message)}\n{message}\nM 100644 :{count + 1} ledger.db\n")
    one.origin.git("fast-import", "--quiet", content="".join(given).encode())
    more = f"origin has {count:,} more runs: `faber-ledger run list --remote`"
    assert one.sync().stdout == f"nothing to fetch from origin, and nothing to send\n{more}\n"
    shown = one.faber("run", "list", "--remote").stdout.splitlines()
    assert len(shown) == count + 2
    assert shown[2].split()[:2] == [f"shop-{count}", str(count)]
    assert one.refs(SENT).count("\n") == 1
    two = one.second("two")
    assert two.synced()["fetched"] > 0
    two.sync(f"shop-{count}", code=1)
    assert two.refs(FETCHED).count("\n") == 2
