import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { ParseError } from '@oarlock/api/values/parse-error';
import { failure, type StatusReason } from '@oarlock/api/status';
import { Paths, type PathResponse } from '@oarlock/spi/paths';
import { Process } from '@oarlock/spi/process';
import { z } from 'zod';
import { explainerSymbol, isExplaining, type Explainer, type Explanation, type NodeChanges } from './explainer.ts';

const maxPods = 1000;
const maxNodes = 1000;
const pod = z.looseObject({
  metadata: z.looseObject({ namespace: z.string().min(1), name: z.string().min(1) }),
  spec: z.looseObject({ containers: z.array(z.looseObject({})).min(1) }),
});
const node = z.looseObject({
  metadata: z.looseObject({ name: z.string().min(1), labels: z.record(z.string(), z.string()).optional() }),
  spec: z
    .looseObject({
      taints: z.array(z.looseObject({ key: z.string().min(1), effect: z.string().min(1), value: z.string().optional() })).optional(),
      unschedulable: z.boolean().optional(),
    })
    .optional(),
  status: z
    .looseObject({
      allocatable: z.record(z.string(), z.string()).optional(),
      images: z.array(z.looseObject({ names: z.array(z.string()).optional(), sizeBytes: z.number().optional() })).optional(),
    })
    .optional(),
});
const nodeChanges = {
  nodes: z.array(node).max(maxNodes).optional(),
  removedNodes: z.array(z.string().min(1)).max(maxNodes).optional(),
};
const requestSchema = z.union([
  z.strictObject({ namespace: z.string().min(1), name: z.string().min(1), ...nodeChanges }),
  z.strictObject({ pods: z.array(pod).min(1).max(maxPods), ...nodeChanges }),
]);

export interface ExplainResponse {
  readonly pods: readonly Explanation[];
}

const reject = (reason: StatusReason, message: string): PathResponse => {
  const { status } = failure(reason, message);
  return { code: status.code ?? 500, body: status };
};

/** Submitted pods and nodes have not been validated: a quantity in them may be malformed. */
function explainSubmitted(explainer: Explainer, pods: readonly Pod[], changes: NodeChanges): PathResponse {
  try {
    const answer: ExplainResponse = { pods: explainer.explain(pods, changes) };
    return { code: 200, body: answer };
  } catch (error) {
    if (error instanceof ParseError) return reject('BadRequest', error.message);
    throw error;
  }
}

/**
 * `POST /oarlock/v1/scheduling`: explains, for each node, the rejection or the score of an existing pod or of submitted pods; on request with other nodes than those
 * of the cluster.
 */
export const explainPath = Paths.plugin({
  id: 'scheduling-explain',
  config: z.strictObject({}),
  needs: { process: Process },
  create: ({ process }) => ({
    path: '/oarlock/v1/scheduling',
    methods: ['POST'],
    async handle({ body }) {
      const parsed = requestSchema.safeParse(body);
      if (!parsed.success)
        return reject(
          'BadRequest',
          'give the namespace and name of a pod, or at most 1000 pods with a namespace, name and containers; optionally nodes, and the names of removedNodes',
        );
      const explainer = process
        .roles()
        .filter(isExplaining)
        .map((role) => role[explainerSymbol]())
        .find((each) => each !== undefined);
      if (explainer === undefined) return reject('ServiceUnavailable', 'no scheduler leads in the process of this API server');
      const { removedNodes } = parsed.data;
      const changes: NodeChanges = { nodes: parsed.data.nodes as readonly Node[] | undefined, removedNodes };
      if ('pods' in parsed.data) return explainSubmitted(explainer, parsed.data.pods as unknown as readonly Pod[], changes);
      const { namespace, name } = parsed.data;
      const found = explainer.podOf(`${namespace}/${name}`);
      if (found === undefined) return reject('NotFound', `pods ${JSON.stringify(name)} not found`);
      return explainSubmitted(explainer, [found], changes);
    },
  }),
});
