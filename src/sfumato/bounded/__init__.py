"""Operations on graphs and networks with a proven sensitivity: where every privacy proof lives."""
