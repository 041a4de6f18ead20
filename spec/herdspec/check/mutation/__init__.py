"""Mutation testing of a spec: does a property notice each small mistake put into it?"""
