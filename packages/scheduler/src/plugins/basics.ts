import { collides, hostPorts } from '@oarlock/api/host-ports';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Scheduling, skip, success, unresolvable, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { onNode } from './node-changes.ts';

const noConfig = z.strictObject({});

/** Higher priority first, then who came first. */
export const prioritySort = Scheduling.plugin({
  id: 'scheduling-priority-sort',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'PrioritySort',
    queueSort: (a, b) => (b.pod.spec?.priority ?? 0) - (a.pod.spec?.priority ?? 0) || a.queuedAt - b.queuedAt,
  }),
});

/** Pods wait outside the queue until their gates are gone (KEP-3521). */
export const schedulingGates = Scheduling.plugin({
  id: 'scheduling-gates',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'SchedulingGates',
    preEnqueue({ spec }) {
      const gates = spec?.schedulingGates ?? [];
      return gates.length === 0
        ? success
        : { code: 'pending', reasons: [`waiting for scheduling gates: [${gates.map(({ name }) => name).join(' ')}]`] };
    },
  }),
});

export const nodeName = Scheduling.plugin({
  id: 'scheduling-node-name',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'NodeName',
    requeueOn: [onNode([], (pod, { metadata }) => metadata?.name === pod.spec?.nodeName)],
    preFilter: (_state, { pod }) => (pod.spec?.nodeName ? success : skip),
    filter: (_state, { pod }, node) =>
      pod.spec?.nodeName === node.name ? success : unresolvable("node(s) didn't match the requested node name"),
  }),
});

const takenReason = "node(s) didn't have free ports for the requested pod ports";
const portsKey = Symbol('NodePorts');

export const nodePorts = Scheduling.plugin({
  id: 'scheduling-node-ports',
  config: noConfig,
  create: (): SchedulingPlugin => ({
    name: 'NodePorts',
    requeueOn: [
      {
        kind: 'AssignedPod',
        on: ['deleted'],
        hint(pod, old) {
          const freed = new Set(hostPorts(old as Pod));
          return hostPorts(pod).some((port) => collides(port, freed)) ? 'queue' : 'skip';
        },
      },
      { kind: 'Node', on: ['added'] },
    ],
    preFilter(state, { pod }) {
      const wanted = hostPorts(pod);
      state.write(portsKey, wanted);
      return wanted.length === 0 ? skip : success;
    },
    filter: (state, _pod, node) =>
      (state.read<readonly string[]>(portsKey) ?? []).some((port) => collides(port, node.usedPorts)) ? unschedulable(takenReason) : success,
  }),
});

const mb = 1024 * 1024;
const smallestImage = 23 * mb;
const largestImage = 1000 * mb; // per container

/** Prefers nodes that have the images, weighed by how many nodes have them, so that one node does not draw all pods. */
export const imageLocality = Scheduling.plugin({
  id: 'scheduling-image-locality',
  config: noConfig,
  create(): SchedulingPlugin {
    const spread = Symbol('ImageLocality');
    return {
      name: 'ImageLocality',
      preScore(state, { pod }, nodes) {
        const images = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].map(({ image = '' }) =>
          /[:@][^/]*$/.test(image) ? image : `${image}:latest`,
        );
        const having = new Map(images.map((image) => [image, nodes.reduce((count, node) => count + (node.images.has(image) ? 1 : 0), 0)]));
        if ([...having.values()].every((count) => count === 0)) return skip;
        state.write(spread, { images, having });
        return success;
      },
      score(state, { pod }, node) {
        const { images, having } = state.read<{ images: string[]; having: Map<string, number> }>(spread) ?? {
          images: [],
          having: new Map<string, number>(),
        };
        let sum = 0;
        for (const image of images)
          sum += Math.floor((node.images.get(image) ?? 0) * ((having.get(image) ?? 0) / Math.max(1, state.snapshot.nodes.length)));
        const largest = largestImage * Math.max(1, (pod.spec?.containers.length ?? 1) + (pod.spec?.initContainers?.length ?? 0));
        return Math.floor((100 * (Math.min(Math.max(sum, smallestImage), largest) - smallestImage)) / (largest - smallestImage));
      },
    };
  },
});
