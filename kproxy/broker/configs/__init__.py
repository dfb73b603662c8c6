"""Configs of topics, brokers, groups and client metrics: settings, effective values, validation."""

from kproxy.broker.configs.configs import CODES, Config, Configs

__all__ = ["CODES", "Config", "Configs"]
