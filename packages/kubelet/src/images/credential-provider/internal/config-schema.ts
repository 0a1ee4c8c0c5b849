import { z } from 'zod';

/** How tokens of service accounts are passed to a plugin (KEP-4412). */
const tokenAttributes = z.strictObject({
  serviceAccountTokenAudience: z.string().default(''),
  cacheType: z.string().default(''),
  requireServiceAccount: z.boolean().optional(),
  requiredServiceAccountAnnotationKeys: z.array(z.string()).default([]),
  optionalServiceAccountAnnotationKeys: z.array(z.string()).default([]),
});
const environmentVariable = z.strictObject({ name: z.string(), value: z.string() });
const providerFields = {
  name: z.string().default(''),
  matchImages: z.array(z.string()).default([]),
  defaultCacheDuration: z.string().optional(),
  apiVersion: z.string().default(''),
  args: z.array(z.string()).default([]),
  env: z.array(environmentVariable).default([]),
};
const provider = z.strictObject({ ...providerFields, tokenAttributes: tokenAttributes.optional() });
/** A CredentialProvider of kubelet.config.k8s.io/v1. */
export type CredentialProvider = z.output<typeof provider>;

const kind = 'CredentialProviderConfig';
const configOf = <T extends z.ZodType>(one: T) =>
  z.strictObject({ kind: z.literal(kind), apiVersion: z.string(), providers: z.array(one).default([]) });
const olderConfig = configOf(z.strictObject(providerFields));
/** The schemas of the versions. The older ones have no tokenAttributes. */
export const configVersions = new Map<string, z.ZodType<{ readonly providers: readonly CredentialProvider[] }>>([
  ['kubelet.config.k8s.io/v1', configOf(provider)],
  ['kubelet.config.k8s.io/v1beta1', olderConfig],
  ['kubelet.config.k8s.io/v1alpha1', olderConfig],
]);
