import { kubernetesEnvironment } from '@oarlock/cel/checker/environment';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, dyn } from '@oarlock/cel/types/type';
import type { Value } from '@oarlock/cel/values/value';
import { isObject } from '@oarlock/api/json/json';
import { Authz, noOpinion, type Attributes, type Decision } from '@oarlock/spi/authz';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';

const maxCached = 10_000;
const cacheSize = 1_000_000;

/** Returns the spec of the SubjectAccessReview. */
function specOf(asked: Attributes): Readonly<Record<string, unknown>> {
  const { name: user, uid, groups, extra } = asked.identity;
  const who = { user, groups, ...(uid !== undefined && { uid }), ...(extra && { extra }) };
  if (asked.kind === 'path') return { ...who, nonResourceAttributes: { path: asked.path, verb: asked.verb } };
  const { verb, group, version, resource, subresource, namespace, name } = asked;
  return { ...who, resourceAttributes: { verb, group, version, resource, subresource, namespace, name } };
}

function decisionOf(review: unknown): Decision {
  const status = isObject(review) && isObject(review['status']) ? review['status'] : {};
  const reason = typeof status['reason'] === 'string' ? status['reason'] : '';
  if (status['allowed'] === true && status['denied'] !== true) return { decision: 'allow', reason: reason || 'the webhook allows it' };
  if (status['denied'] === true) return { decision: 'deny', reason: reason || 'the webhook denies it' };
  return reason === '' ? noOpinion : { decision: 'no-opinion', reason: reason };
}

const compiled = (expression: string) => compile(expression, kubernetesEnvironment({ variables: { request: dyn } }), { expect: [bool] });

/** Authorizes requests by SubjectAccessReviews of an external webhook, with a cache of decisions. */
export default Authz.plugin({
  id: 'authz-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      timeoutSeconds: z.number().positive().max(30).default(10),
      authorizedCacheSeconds: z.number().min(0).max(3600).default(300),
      unauthorizedCacheSeconds: z.number().min(0).max(3600).default(30),
      /** The decision if the webhook is not available. */
      failurePolicy: z.enum(['NoOpinion', 'Deny']).default('NoOpinion'),
      /** CEL expressions over `request`, the spec of the review; the webhook is called if all are true. */
      matchConditions: z
        .array(z.strictObject({ expression: z.string().min(1) }))
        .max(64)
        .superRefine((conditions, context) => {
          for (const [at, { expression }] of conditions.entries()) {
            const { program, message } = compiled(expression);
            if (program === undefined) context.addIssue({ code: 'custom', path: [at, 'expression'], message: message ?? '' });
          }
        })
        .default([]),
    })
    .refine(hasOneEndpoint, oneEndpointMessage),
  create({ config }, { clock, log }) {
    const service = new JsonClient(config);
    const conditions: readonly Program[] = config.matchConditions.flatMap(({ expression }) => compiled(expression).program ?? []);
    const cache = new Map<string, { readonly decision: Decision; readonly until: number }>();
    const failed = (because: string): Decision => (config.failurePolicy === 'Deny' ? { decision: 'deny', reason: because } : noOpinion);

    const ask = async (spec: Readonly<Record<string, unknown>>, key: string): Promise<Decision> => {
      let decision: Decision;
      try {
        const { code, body } = await service.post(
          { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', metadata: {}, spec },
          config.timeoutSeconds * 1000,
        );
        if (code < 200 || code > 299) throw new Error(`the authorization webhook returned status ${code}`);
        decision = decisionOf(body);
      } catch (error) {
        log.warn({ err: error }, 'calling the authorization webhook failed');
        return failed('calling the authorization webhook failed');
      }
      const seconds = decision.decision === 'allow' ? config.authorizedCacheSeconds : config.unauthorizedCacheSeconds;
      cache.delete(key);
      if (cache.size >= maxCached)
        for (const oldest of cache.keys()) {
          cache.delete(oldest);
          break;
        }
      if (seconds > 0) cache.set(key, { decision, until: clock.now() + seconds * 1000 });
      return decision;
    };

    return {
      stop: async () => {
        service.close();
      },
      authorize(asked): Decision | Promise<Decision> {
        const spec = specOf(asked);
        for (const condition of conditions) {
          const { value, error } = condition.evaluate({ request: spec as unknown as Value }, cacheSize);
          if (error !== undefined) return failed('a match condition of the authorization webhook cannot be evaluated');
          if (value !== true) return noOpinion;
        }
        const key = JSON.stringify(spec);
        const known = cache.get(key);
        return known !== undefined && known.until > clock.now() ? known.decision : ask(spec, key);
      },
      rulesFor: () => ({ resources: [], paths: [], incomplete: 'webhook authorizer does not support user rule resolution' }),
    };
  },
});
