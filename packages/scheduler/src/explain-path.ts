import type { Pod } from '@oarlock/api/types/core-v1';
import { failure, type StatusReason } from '@oarlock/api/status';
import { Paths, type PathResponse } from '@oarlock/spi/paths';
import { Process } from '@oarlock/spi/process';
import { z } from 'zod';
import { explaining, isExplaining, type Explanation } from './explain.ts';

const mostPods = 1000;
const pod = z.looseObject({
  metadata: z.looseObject({ namespace: z.string().min(1), name: z.string().min(1) }),
  spec: z.looseObject({ containers: z.array(z.looseObject({})).min(1) }),
});
const question = z.union([
  z.strictObject({ namespace: z.string().min(1), name: z.string().min(1) }),
  z.strictObject({ pods: z.array(pod).min(1).max(mostPods) }),
]);

export interface ExplainAnswer {
  readonly pods: readonly Explanation[];
}

const refuse = (reason: StatusReason, message: string): PathResponse => {
  const { status } = failure(reason, message);
  return { code: status.code ?? 500, body: status };
};

/** `POST /oarlock/v1/scheduling`: for each node who refuses a pod there or what it scores; for a pod by name, or for pods that there are not. */
export const explainPath = Paths.plugin({
  id: 'scheduling-explain',
  config: z.strictObject({}),
  needs: { process: Process },
  create: ({ process }) => ({
    path: '/oarlock/v1/scheduling',
    methods: ['POST'],
    async handle({ body }) {
      const parsed = question.safeParse(body);
      if (!parsed.success)
        return refuse('BadRequest', 'give the namespace and name of a pod, or at most 1000 pods with a namespace, name and containers');
      const explainer = process
        .roles()
        .filter(isExplaining)
        .map((role) => role[explaining]())
        .find((each) => each !== undefined);
      if (explainer === undefined) return refuse('ServiceUnavailable', 'no scheduler leads in the process of this API server');
      if ('pods' in parsed.data) {
        const answer: ExplainAnswer = { pods: explainer.explain(parsed.data.pods as unknown as readonly Pod[]) };
        return { code: 200, body: answer };
      }
      const { namespace, name } = parsed.data;
      const found = explainer.podOf(`${namespace}/${name}`);
      if (found === undefined) return refuse('NotFound', `pods ${JSON.stringify(name)} not found`);
      const answer: ExplainAnswer = { pods: explainer.explain([found]) };
      return { code: 200, body: answer };
    },
  }),
});
