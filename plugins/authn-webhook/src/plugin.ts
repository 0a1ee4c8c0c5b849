import { Authn } from '@oarlock/spi/authn';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';
import { WebhookAuthenticator } from './webhook-authenticator.ts';

/** Authenticates bearer tokens with TokenReviews of an external webhook. */
export default Authn.plugin({
  id: 'authn-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /** The accepted audiences, of which a token must have at least one. A token has all of them if the webhook returns no audiences. */
      audiences: z.array(z.string()).default([]),
      timeoutSeconds: z.number().positive().max(60).default(10),
      /** How long a successful authentication is cached, in seconds. */
      cacheSeconds: z.number().min(0).max(3600).default(120),
      /** How long a rejected token is cached, in seconds. */
      refusedCacheSeconds: z.number().min(0).max(3600).default(10),
    })
    .refine(hasOneEndpoint, oneEndpointMessage),
  create: ({ config }, { clock }) =>
    new WebhookAuthenticator({
      webhook: new JsonClient(config),
      audiences: config.audiences,
      timeoutMs: config.timeoutSeconds * 1000,
      cacheMs: config.cacheSeconds * 1000,
      rejectionCacheMs: config.refusedCacheSeconds * 1000,
      clock,
    }),
});
