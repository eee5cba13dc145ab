"""How parameters are chosen: learners that are solved again and again, and what drives them."""
