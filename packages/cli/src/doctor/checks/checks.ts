import type { Check } from './check.ts';
import { cgroups } from './cgroups.ts';
import { clock } from './clock.ts';
import { cniPlugins } from './cni-plugins.ts';
import { inotify, openFiles } from './limits.ts';
import { namespaces } from './namespaces.ts';
import { nodeVersion } from './node-version.ts';
import { overlay } from './overlay.ts';
import { iptables, nftables } from './packet-filters.ts';
import { ports, privilegedPorts } from './ports.ts';
import { containerd, docker, ociRuntime } from './runtimes.ts';
import { disk, memory } from './space.ts';
import { subordinateIds } from './subordinate-ids.ts';
import { tapDevice } from './tap-device.ts';

/** The checks of `oarlock doctor`, in the order of its output. */
export const checks: readonly Check[] = [
  nodeVersion,
  namespaces,
  cgroups,
  overlay,
  nftables,
  iptables,
  cniPlugins,
  ociRuntime,
  containerd,
  docker,
  subordinateIds,
  tapDevice,
  privilegedPorts,
  ...ports,
  openFiles,
  inotify,
  disk,
  memory,
  clock,
];
