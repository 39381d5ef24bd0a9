"""``CheckpointSaver`` with a bound: the newest snapshots stay, whole, and nothing else."""

from durably import CheckpointNotFound, StateSnapshot
from durably_conformance.building import snapshot
from durably_conformance.context import T
from durably_conformance.reading_back import listed, plain
from durably_conformance.registry import check


@check("CKS-BOUND-001", contract="saver", reports=("langchain-ai/langgraph#8531",))
async def a_bound_evicts_the_oldest(t: T) -> None:
    """With a bound only the newest so many snapshots are there, each whole."""
    handles = await t.connect(), await t.connect()
    for bound in (2, 3):
        one, other = (
            handle.checkpoint_saver(max_checkpoints_per_thread=bound) for handle in handles
        )
        name, made, seqs = f"bound {bound}", list[StateSnapshot](), list[int]()
        for turn in range(12):
            made.append(snapshot(*(f"{n}" * 30 for n in range(turn)), turn=turn))
            seqs.append(await one.append(name, made[-1]))
            for saver in (one, other):
                got = await listed(saver, name)
                t.eq(got, made[::-1][:bound], f"what a bound of {bound} keeps")
        for seq in seqs[:-bound]:
            await t.raises(CheckpointNotFound, other.get(name, seq), "an evicted snapshot")
        kept = [plain(await other.get(name, seq)) for seq in seqs[-bound:]]
        t.eq(kept, made[-bound:], f"the newest {bound}, one by one")


@check("CKS-BOUND-002", contract="saver")
async def a_seq_is_never_used_again(t: T) -> None:
    """A seq is never used again, also not after every older snapshot was evicted."""
    one = (await t.connect()).checkpoint_saver(max_checkpoints_per_thread=1)
    other = (await t.connect()).checkpoint_saver(max_checkpoints_per_thread=1)
    seqs = [await one.append("t", snapshot(f"{number}")) for number in range(6)]
    t.eq(seqs, sorted(set(seqs)), "seqs in the order of the appends")
    t.eq([one.seq for one in await other.list("t")], seqs[-1:], "the seq that is left")


@check("CKS-BOUND-003", contract="saver")
async def a_bound_is_of_each_thread(t: T) -> None:
    """A bound counts the snapshots of each thread alone."""
    saver = (await t.connect()).checkpoint_saver(max_checkpoints_per_thread=2)
    await saver.append("quiet", snapshot("q"))
    for number in range(5):
        await saver.append("busy", snapshot(f"{number}"))
        await saver.append("busier", snapshot(f"{number}"))
    t.eq(await listed(saver, "quiet"), [snapshot("q")], "the thread that was saved once")
    for name in ("busy", "busier"):
        t.eq(await listed(saver, name), [snapshot("4"), snapshot("3")], f"the {name} thread")
