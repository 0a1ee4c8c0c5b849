import { Authn } from '@oarlock/spi/authn';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';
import { WebhookAuthenticator } from './webhook-authenticator.ts';

/** Authenticates bearer tokens by TokenReviews of an external webhook. */
export default Authn.plugin({
  id: 'authn-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /** The audiences of which the token must have one; also those of a token if the webhook returns none. */
      audiences: z.array(z.string()).default([]),
      timeoutSeconds: z.number().positive().max(60).default(10),
      /** Seconds for which a success is cached. */
      cacheSeconds: z.number().min(0).max(3600).default(120),
      /** Seconds for which another result is cached. */
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
