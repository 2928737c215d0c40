"""Identities of parties: each party has one vote, even if its key was replaced.

Flower identifies a node by its key, so a party with a new key has a new node id. Therefore a party
sends a random secret with every reply, and the server stores the SHA-256 of the secret as its identity.
A new node with a known identity replaces the old node. If the old node is still connected, two parties
share a state folder, and the new node is refused.
"""

from collections.abc import Collection, Mapping
from logging import INFO

from flwr.common import log

from fedplus.flower.records import OTHERS, short_identity
from fedplus.flower.replies import Refusal, Reply
from fedplus.flower.state import ServerState


def others_message(
    state: ServerState, node: int, connected: Collection[int]
) -> dict[str, list[str]]:
    """Return the part of a message that tells a new node which parties are connected.

    The new node can then refuse to use a folder of one of them. A known node gets no such part.

    Args:
        state: The server's state.
        node: The node that gets the message.
        connected: All connected nodes.
    """
    if node in state.identities:
        return {}
    others = (identity for other, identity in state.identities.items() if other in connected)
    return {OTHERS: sorted(map(short_identity, others))}


def check_identity(
    state: ServerState, reply: Reply, accepted: Mapping[int, Reply], connected: Collection[int]
) -> Reply | Refusal:
    """Refuse a second reply of one node, and a reply with the secret of another connected node.

    Args:
        state: The server's state.
        reply: A reply with a valid model.
        accepted: The replies of this round that were accepted so far, by node.
        connected: All connected nodes.

    Returns:
        The reply, or the reason why it is refused.
    """
    if reply.node in accepted:
        return Refusal(reply.node, "a second reply of the same party")
    if reply.identity is None:
        return reply
    accepted_identities = {other.identity: node for node, other in accepted.items()}
    owner = accepted_identities.get(reply.identity, _find_node(state, reply.identity))
    is_present = owner in connected or reply.identity in accepted_identities
    if owner in (None, reply.node) or not is_present:
        return reply
    return Refusal(
        reply.node, f"it has the secret of node {owner}, which is connected, too: two parties must "
        "not share a state folder",
    )  # fmt: skip


def accept_reply(state: ServerState, reply: Reply) -> int | None:
    """Store the model and the identity of a reply in the server's state.

    Returns:
        The node that the sender replaces if the party's key was replaced, else None.
    """
    old_node = None if reply.identity is None else _find_node(state, reply.identity)
    replaced = old_node if old_node != reply.node else None
    if replaced is not None:
        log(
            INFO, "Node %s replaces node %s: it has the same secret, so the party's key was replaced",
            reply.node, replaced,
        )  # fmt: skip
        state.models.pop(replaced, None)
        state.joined.discard(replaced)
        state.departed.discard(replaced)
        state.replaced.add(replaced)
        del state.identities[replaced]
        if replaced in state.parties and reply.node not in state.parties:
            state.parties[state.parties.index(replaced)] = reply.node
    if reply.node not in state.parties:
        state.parties.append(reply.node)
    if reply.identity is not None:
        state.identities[reply.node] = reply.identity
    state.models[reply.node] = reply.w
    state.joined.add(reply.node)
    state.departed.discard(reply.node)
    state.replaced.discard(reply.node)
    return replaced


def _find_node(state: ServerState, identity: str) -> int | None:
    """Return the node that has sent this identity before, or None."""
    return next((node for node, known in state.identities.items() if known == identity), None)
