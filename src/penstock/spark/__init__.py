"""ENGINE 2: Spark. The only room that imports pyspark."""
