import type { Strategy } from '../strategy.ts';

const system: ReadonlySet<string> = new Set(['system-cluster-critical', 'system-node-critical']);

export const priorityClasses: Strategy = {
  generation: true,
  deletionDenial: (name) => (system.has(name) ? 'this is a system priority class and cannot be deleted' : undefined),
};
