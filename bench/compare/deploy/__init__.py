"""The parts of bench/compare_deploy.py; docs/DEPLOY.md describes what they measure."""
