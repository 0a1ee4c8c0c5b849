import type { Plugin } from '@oarlock/kernel/plugin';
import clusterRoleAggregation from './cluster-role-aggregation/cluster-role-aggregation-controller.ts';
import resourceQuota from './resource-quota/resource-quota-controller.ts';

/** The loops that keep roles, keys, tokens and quotas right. */
export const security: readonly Plugin[] = [clusterRoleAggregation, resourceQuota];
