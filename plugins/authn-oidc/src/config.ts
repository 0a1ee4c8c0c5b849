import { isSafeUrl } from '@oarlock/webhook-client/endpoint-config';
import { z } from 'zod';

const expression = z.string().min(1);
const claim = z.string().min(1);
const prefixed = z.union([z.strictObject({ claim, prefix: z.string() }), z.strictObject({ expression })]);
const plain = z.union([z.strictObject({ claim }), z.strictObject({ expression })]);
const message = z.string().default('');

const jwt = z.strictObject({
  issuer: z.strictObject({
    url: z.string().refine(isSafeUrl, 'an https:// URL'),
    discoveryURL: z.string().refine(isSafeUrl, 'an https:// URL').optional(),
    /** The path of a PEM file with the CA certificates of the issuer. */
    certificateAuthorityFile: z.string().min(1).optional(),
    /** The PEM text of the issuer's CA certificates, as in upstream's configuration file. */
    certificateAuthority: z.string().min(1).optional(),
    audiences: z.array(z.string().min(1)).min(1),
    audienceMatchPolicy: z.literal('MatchAny').default('MatchAny'),
  }),
  claimMappings: z.strictObject({
    username: prefixed,
    groups: prefixed.optional(),
    uid: plain.optional(),
    extra: z.array(z.strictObject({ key: z.string().regex(/^[a-z0-9.-]+\/[a-z0-9._/-]+$/), valueExpression: expression })).default([]),
  }),
  claimValidationRules: z
    .array(z.union([z.strictObject({ claim, requiredValue: z.string() }), z.strictObject({ expression, message })]))
    .default([]),
  userValidationRules: z.array(z.strictObject({ expression, message })).default([]),
});
export type JwtConfig = z.output<typeof jwt>;

export const config = z.strictObject({
  jwt: z
    .array(jwt)
    .min(1)
    .max(64)
    .refine((list) => new Set(list.map(({ issuer }) => issuer.url)).size === list.length, 'one entry for each issuer'),
  timeoutSeconds: z.number().positive().max(60).default(10),
});
