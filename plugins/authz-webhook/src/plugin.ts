import { kubernetesEnvironment } from '@oarlock/cel/checker/environment';
import { compile } from '@oarlock/cel/program';
import { bool, dyn } from '@oarlock/cel/types/type';
import { Authz } from '@oarlock/spi/authz';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';
import { WebhookAuthorizer } from './webhook-authorizer.ts';

const compileCondition = (expression: string) =>
  compile(expression, kubernetesEnvironment({ variables: { request: dyn } }), { expect: [bool] });

/** Authorizes requests with SubjectAccessReviews of an external webhook, and caches the decisions. */
export default Authz.plugin({
  id: 'authz-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      timeoutSeconds: z.number().positive().max(30).default(10),
      authorizedCacheSeconds: z.number().min(0).max(3600).default(300),
      unauthorizedCacheSeconds: z.number().min(0).max(3600).default(30),
      /** The decision if the webhook does not answer. */
      failurePolicy: z.enum(['NoOpinion', 'Deny']).default('NoOpinion'),
      /** CEL expressions over `request`, the spec of the SubjectAccessReview. The webhook is called if all of them are true. */
      matchConditions: z
        .array(z.strictObject({ expression: z.string().min(1) }))
        .max(64)
        .superRefine((conditions, context) => {
          for (const [index, { expression }] of conditions.entries()) {
            const { program, message } = compileCondition(expression);
            if (program === undefined) context.addIssue({ code: 'custom', path: [index, 'expression'], message: message ?? '' });
          }
        })
        .default([]),
    })
    .refine(hasOneEndpoint, oneEndpointMessage),
  create: ({ config }, { clock, log }) =>
    new WebhookAuthorizer({
      webhook: new JsonClient(config),
      matchConditions: config.matchConditions.flatMap(({ expression }) => compileCondition(expression).program ?? []),
      timeoutMs: config.timeoutSeconds * 1000,
      authorizedCacheMs: config.authorizedCacheSeconds * 1000,
      unauthorizedCacheMs: config.unauthorizedCacheSeconds * 1000,
      failurePolicy: config.failurePolicy,
      clock,
      log,
    }),
});
