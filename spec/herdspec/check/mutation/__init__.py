"""Small mistakes put into a spec: do its promises notice?"""
