"""Why an attack on a published mechanism succeeds, in a few sentences that a reader can follow."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FLAWS: Mapping[str, str] = MappingProxyType(
    {
        "component_adaptive": (
            "The noise on a component is proportional to the client's own predicted weight, so its size tells what it "
            "should hide: a client whose weights are zero sends them without any noise, one with other weights sends "
            "noise. Whoever sees one message, or estimates its variance over a few, knows which it was."
        ),
        "dropout_robust": (
            "When clients drop out, survivors send the server e′ = −e + fresh noise to correct the sum. But e′ depends "
            "on the noise e that is in the sum, and the server sees both: given e′, the noise that is left has "
            "variance v_e·v_f/(v_e + v_f), half of what was promised or less. The attack simply weighs the sum and the "
            "e′ together. (Sending an independent part instead, as the certified mode does, reveals nothing.)"
        ),
        "a_dpfl": (
            "Noise is added to the batch's gradient first and the result is clipped afterwards. Clipping bounds what "
            "is sent, not what one record changes: a record with a large gradient drowns the noise, and clipping then "
            "only scales both down together. The direction of the message gives the record away. (The label "
            "histograms, which are sent exactly, would do so too; they were left out of this attack.)"
        ),
        "fed_cad": (
            "The correlated noise is sound for a constant Diff, but the printed ε does not belong to the printed σ. "
            "Two updates of norm 1 can be 2 apart, and noise of σ = 0.3 is added to each: a participation alone is two "
            "Gaussians at a distance of 6.7 standard deviations, which are told apart at a glance. The certificate "
            "shows what 30 participations really cost."
        ),
        "geometric": (
            "Δs = 2C/|D_k| would be the sensitivity of an average of |D_k| clipped terms. What is sent is a trained "
            "model whose weights were clipped to C: one record with a large gradient can move it from one side of the "
            "ball to the other, by 2C. The noise is |D_k| times too small for that."
        ),
    }
)
