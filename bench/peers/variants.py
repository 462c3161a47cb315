"""The settings under which each library is measured. The best of them counts, point by point."""

import dataclasses

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter",
              "barrier", "ping_pong", "shift", "all_gather_v", "reduce_scatter_v", "all_to_all_v")
LIBRARIES = ("tutti", "tutti-registered", "ompi", "mpich", "gloo")
PEERS = ("ompi", "mpich", "gloo")


@dataclasses.dataclass(frozen=True)
class Variant:
    library: str
    name: str
    environment: tuple = ()  # of the ranks: (name, value) pairs
    launcher: tuple = ()     # more arguments of mpirun
    program: tuple = ()      # more arguments of the program
    operations: tuple = OPERATIONS
    largest: int = 1 << 62   # bytes up to which it can be trusted
    pinned: bool = True      # ranks are bound to cores

    def covers(self, operation, size):
        return operation in self.operations and size <= self.largest


# glibc gives large blocks back to the system on each free, so that a library which allocates in each call touches new
# pages in each call. These keep them.
KEEP_MEMORY = (
    ("MALLOC_MMAP_MAX_", "0"),
    ("MALLOC_TRIM_THRESHOLD_", str(16 << 30)),
    ("MALLOC_TOP_PAD_", str(256 << 20)),
)


def mca(**parameters):
    return tuple(word for name, value in parameters.items() for word in ("--mca", name, str(value)))


def open_mpi(ranks):
    """Open MPI: its defaults, its transports, coll/sm, and each algorithm that coll/tuned has for an operation."""
    def numbers(count, of_two=None):
        """1 to `count`; more than two ranks do without the one that is for two."""
        return [n for n in range(1, count + 1) if n != of_two or ranks == 2]

    parameters = {  # the operation's names there, its algorithms' numbers
        "all_reduce": (("allreduce",), numbers(6)),
        "reduce_scatter": (("reduce_scatter", "reduce_scatter_block"), numbers(4)),
        "all_gather": (("allgather",), numbers(6, of_two=6)),
        "all_to_all": (("alltoall",), numbers(5, of_two=5)),
        "broadcast": (("bcast",), numbers(9)),
        "reduce": (("reduce",), numbers(7)),
        "gather": (("gather",), numbers(3)),
        "scatter": (("scatter",), numbers(3)),
        "barrier": (("barrier",), numbers(6, of_two=5)),
        "all_gather_v": (("allgatherv",), numbers(5, of_two=5)),
        "reduce_scatter_v": (("reduce_scatter",), numbers(4)),
        "all_to_all_v": (("alltoallv",), numbers(2)),
    }
    variants = [
        Variant("ompi", "default"),
        Variant("ompi", "memory", KEEP_MEMORY),
        Variant("ompi", "ucx", KEEP_MEMORY, mca(pml="ucx", pml_ucx_tls="any", pml_ucx_devices="any")),
        Variant("ompi", "eager-32k", KEEP_MEMORY, mca(btl_vader_eager_limit=32768)),
        Variant("ompi", "two-copies", KEEP_MEMORY, mca(btl_vader_single_copy_mechanism="none")),
        # Off unless it is asked for; it leaves other operations to coll/tuned.
        Variant("ompi", "sm", KEEP_MEMORY, mca(coll_sm_priority=90),
                operations=("all_reduce", "broadcast", "reduce", "barrier")),
    ]
    for number in range(1, 10):
        having = {op: names for op, (names, of) in parameters.items() if number in of}
        chosen = {f"coll_tuned_{name}_algorithm": number for names in having.values() for name in names}
        variants.append(Variant("ompi", f"algorithm-{number}", KEEP_MEMORY,
                                mca(coll_tuned_use_dynamic_rules=1, **chosen), operations=tuple(having)))
    return variants + reduce_scatter_v(variants)


def mpich(ranks):
    """MPICH: its defaults, UCX's thresholds and transports, and each algorithm."""
    algorithms = {
        "all_reduce": (("ALLREDUCE",), ("recursive_doubling", "reduce_scatter_allgather")),
        "reduce_scatter": (("REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK"),
                           ("recursive_halving", "recursive_doubling", "pairwise")),
        "all_gather": (("ALLGATHER",), ("recursive_doubling", "brucks", "ring")),
        "all_to_all": (("ALLTOALL",), ("brucks", "pairwise", "scattered")),
        "broadcast": (("BCAST",), ("binomial", "scatter_recursive_doubling_allgather", "scatter_ring_allgather")),
        "reduce": (("REDUCE",), ("binomial", "reduce_scatter_gather")),
        "all_gather_v": (("ALLGATHERV",), ("brucks", "ring", "recursive_doubling")),
        "reduce_scatter_v": (("REDUCE_SCATTER",), ("recursive_halving", "recursive_doubling", "pairwise")),
    }
    variants = [
        Variant("mpich", "default"),
        Variant("mpich", "memory", KEEP_MEMORY),
        Variant("mpich", "rendezvous-8k", (("UCX_RNDV_THRESH", "8k"),)),
        Variant("mpich", "rendezvous-256k", (("UCX_RNDV_THRESH", "256k"),)),
        Variant("mpich", "posix", (("UCX_TLS", "posix,cma,self"),)),
    ]
    for number in range(3):
        having = {op: (names, of[number]) for op, (names, of) in algorithms.items() if number < len(of)}
        chosen = tuple(pair for names, algorithm in having.values() for name in names for pair in (
            (f"MPIR_CVAR_{name}_DEVICE_COLLECTIVE", "0"), (f"MPIR_CVAR_{name}_INTRA_ALGORITHM", algorithm)))
        variants.append(Variant("mpich", f"algorithm-{number + 1}", KEEP_MEMORY + chosen, operations=tuple(having)))
    return variants + reduce_scatter_v(variants)


def reduce_scatter_v(variants):
    """Where MPI_Reduce_scatter is better than MPI_Reduce_scatter_block."""
    return [dataclasses.replace(v, name=v.name + "-v", program=("--reduce-scatter-v",), operations=("reduce_scatter",))
            for v in variants if "reduce_scatter" in v.operations]


def gloo(ranks):
    """Gloo: newer algorithms, and older ones whose callers use the sockets themselves. Those hang now and then above
    1 MiB (a block a rank may round that up), and spinning is only of use while each rank has a core."""
    variants = [Variant("gloo", "new", pinned=False), Variant("gloo", "new-pinned")]
    older = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")
    for sync in ("block", "busy"):
        for algorithm in ("halving_doubling", "bcube", "ring_chunked"):
            operations = older if algorithm == "halving_doubling" else ("all_reduce",)
            variants.append(Variant("gloo", f"{algorithm}-{sync}", program=("--algorithm", algorithm, "--sync", sync),
                                    operations=operations, largest=(1 << 20) + 4 * ranks))
    return variants


def variants_of(library, ranks):
    """All settings of a library; the first is its default."""
    if library == "tutti":
        return [Variant("tutti", "default")]
    if library == "tutti-registered":
        return [Variant("tutti-registered", "default", program=("--register",))]
    return {"ompi": open_mpi, "mpich": mpich, "gloo": gloo}[library](ranks)


def over_tcp(library, ranks):
    """All settings that make sense over TCP; the first is the default."""
    if library != "ompi":
        return variants_of(library, ranks)
    tcp = [Variant("ompi", "links-4", KEEP_MEMORY, mca(btl_tcp_links=4)),
           Variant("ompi", "kernel-buffers", KEEP_MEMORY, mca(btl_tcp_sndbuf=0, btl_tcp_rcvbuf=0)),
           Variant("ompi", "eager-256k", KEEP_MEMORY, mca(btl_tcp_eager_limit=262144))]
    return [v for v in open_mpi(ranks) if v.name.startswith(("default", "memory", "algorithm"))] + tcp
