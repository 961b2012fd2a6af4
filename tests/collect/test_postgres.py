"""The server that the tests of stores use."""

import sqlalchemy


def test_the_cluster_answers(postgres_url):
    engine = sqlalchemy.create_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("select 1")) == 1
        assert connection.scalar(sqlalchemy.text("show fsync")) == "on"
    engine.dispose()
