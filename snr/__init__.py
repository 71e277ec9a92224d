"""Capacity: how much noise does recall from an associative memory carry? (P §2.1, App. A)"""
