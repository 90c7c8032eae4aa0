\echo Use "CREATE EXTENSION parallel_temp" to load this file. \quit

