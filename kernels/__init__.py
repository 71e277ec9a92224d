"""DeltaFormer: u_t = α_t v_t − β_t Σ_{i<t} κ₁(k_i, w_t) u_i,  o_t = Σ_{i≤t} κ₂(k_i, q_t) u_i (P eq. 41-42)."""
