import { quantity } from '../../components/quantity.ts';
import type { PodSpec } from '../object/workload-kinds.ts';

export interface PodWithRequests {
  readonly spec?: PodSpec;
  readonly status?: { readonly phase?: string };
}

export interface PodRequests {
  readonly count: number;
  readonly cpu?: number;
  readonly memory?: number;
}

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Sums up what pods that use a node request. Pods without a node, such as one that no node can run, use nothing. */
export function requestsOnNodes(pods: readonly PodWithRequests[]): PodRequests {
  const podsOnNodes = pods.filter(
    ({ spec, status }) => (spec?.nodeName ?? '') !== '' && status?.phase !== 'Succeeded' && status?.phase !== 'Failed',
  );
  const requested = (name: string) =>
    sum(podsOnNodes.flatMap(({ spec }) => (spec?.containers ?? []).map(({ resources }) => quantity(resources?.requests?.[name]))));
  return { count: podsOnNodes.length, cpu: requested('cpu'), memory: requested('memory') };
}
