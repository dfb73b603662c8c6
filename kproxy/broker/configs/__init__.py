"""Configs of topics, brokers, groups and client metrics: what was set, what holds, what may be set."""

from kproxy.broker.configs.configs import CODES, Config, Configs

__all__ = ["CODES", "Config", "Configs"]
