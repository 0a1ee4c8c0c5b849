import type { Plugin } from '@oarlock/kernel/plugin';
import bootstrapSigner from './bootstrap-token/bootstrap-signer-controller.ts';
import tokenCleaner from './bootstrap-token/token-cleaner-controller.ts';
import csrApproving from './certificate-signing-request/csr-approving-controller.ts';
import csrCleaner from './certificate-signing-request/csr-cleaner-controller.ts';
import csrSigning from './certificate-signing-request/csr-signing-controller.ts';
import clusterRoleAggregation from './cluster-role-aggregation/cluster-role-aggregation-controller.ts';
import resourceQuota from '../api-machinery/resource-quota/resource-quota-controller.ts';
import legacyTokenCleaner from './service-account-token/legacy-token-cleaner-controller.ts';
import serviceAccountToken from './service-account-token/service-account-token-controller.ts';

/** Controllers of roles, certificates, tokens and quotas. */
export const securityControllers: readonly Plugin[] = [
  clusterRoleAggregation,
  resourceQuota,
  csrApproving,
  csrSigning,
  csrCleaner,
  bootstrapSigner,
  tokenCleaner,
  serviceAccountToken,
  legacyTokenCleaner,
];
