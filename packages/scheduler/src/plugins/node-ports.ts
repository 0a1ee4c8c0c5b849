import { hostPortConflicts, hostPorts } from '@oarlock/api/component-helpers/host-ports';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const preFilterKey = Symbol('NodePorts');

/** Rejects nodes on which a host port of the pod is in use. */
export const nodePorts = Scheduling.plugin({
  id: 'scheduling-node-ports',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodePorts',
    eventsToRegister: [
      {
        kind: 'AssignedPod',
        actions: ['deleted'],
        queueingHint(pod, old) {
          const freedPorts = new Set(hostPorts(old as Pod));
          return hostPorts(pod).some((port) => hostPortConflicts(port, freedPorts)) ? 'queue' : 'skip';
        },
      },
      { kind: 'Node', actions: ['added'] },
    ],
    preFilter(state, { pod }) {
      const ports = hostPorts(pod);
      state.write(preFilterKey, ports);
      return ports.length === 0 ? skip : success;
    },
    filter: (state, _pod, node) =>
      (state.read<readonly string[]>(preFilterKey) ?? []).some((port) => hostPortConflicts(port, node.usedPorts))
        ? unschedulable("node(s) didn't have free ports for the requested pod ports")
        : success,
  }),
});
