import type { Check } from './check.ts';
import { cgroups } from './checks/cgroups.ts';
import { clock } from './checks/clock.ts';
import { inotify, openFiles } from './checks/limits.ts';
import { namespaces } from './checks/namespaces.ts';
import { nodeVersion } from './checks/node-version.ts';
import { overlay } from './checks/overlay.ts';
import { iptables, nftables } from './checks/packet-filters.ts';
import { ports } from './checks/ports.ts';
import { containerd, docker, ociRuntime } from './checks/runtimes.ts';
import { disk, memory } from './checks/space.ts';
import { subordinateIds } from './checks/subordinate-ids.ts';

/** The checks of `oarlock doctor`, in the order of its output. */
export const checks: readonly Check[] = [
  nodeVersion,
  namespaces,
  cgroups,
  overlay,
  nftables,
  iptables,
  ociRuntime,
  containerd,
  docker,
  subordinateIds,
  ...ports,
  openFiles,
  inotify,
  disk,
  memory,
  clock,
];
