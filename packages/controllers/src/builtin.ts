import type { Plugin } from '@oarlock/kernel/plugin';
import attachDetach from './volume/attach-detach/attach-detach-controller.ts';
import cloudNode from './cloud/cloud-node-controller.ts';
import route from './cloud/route-controller.ts';
import serviceLoadBalancer from './cloud/service-load-balancer-controller.ts';
import cronJob from './batch/cron-job/cron-job-controller.ts';
import daemonSet from './apps/daemon-set/daemon-set-controller.ts';
import deployment from './apps/deployment/deployment-controller.ts';
import endpointSlice from './network/endpoint-slice/endpoint-slice-controller.ts';
import endpoints from './network/endpoints/endpoints-controller.ts';
import endpointSliceMirroring from './network/endpoint-slice-mirroring/endpoint-slice-mirroring-controller.ts';
import ephemeralVolume from './volume/ephemeral-volume/ephemeral-volume-controller.ts';
import deviceTaintEviction from './dynamic-resources/device-taint-eviction/device-taint-eviction-controller.ts';
import disruption from './apps/disruption/disruption-controller.ts';
import garbageCollector from './api-machinery/garbage-collector/garbage-collector.ts';
import horizontalPodAutoscaler from './pod-autoscaler/horizontal-pod-autoscaler-controller.ts';
import ipBlocksController from './network/ip-blocks/ip-blocks-controller.ts';
import job from './batch/job/job-controller.ts';
import namespace from './api-machinery/namespace/namespace-controller.ts';
import nodeIpam from './node/node-ipam/node-ipam-controller.ts';
import nodeLifecycle from './node/node-lifecycle/node-lifecycle-controller.ts';
import persistentVolume from './volume/persistent-volume/persistent-volume-controller.ts';
import podGc from './node/pod-gc/pod-gc-controller.ts';
import replicaSet from './apps/replica-set/replica-set-controller.ts';
import replicationController from './apps/replication-controller/replication-controller.ts';
import resourceClaim from './dynamic-resources/resource-claim/resource-claim-controller.ts';
import rootCa from './auth/root-ca/root-ca-controller.ts';
import { securityControllers } from './auth/security-controllers.ts';
import serviceAccount from './auth/service-account/service-account-controller.ts';
import serviceCidr from './network/service-cidr/service-cidr-controller.ts';
import statefulSet from './apps/stateful-set/stateful-set-controller.ts';
import storageVersionMigration from './api-machinery/storage-version-migration/storage-version-migration-controller.ts';
import taintEviction from './node/taint-eviction/taint-eviction-controller.ts';
import ttl from './node/ttl/ttl-controller.ts';
import ttlAfterFinished from './batch/ttl-after-finished/ttl-after-finished-controller.ts';
import validatingAdmissionPolicyStatus from './api-machinery/validating-admission-policy-status/validating-admission-policy-status-controller.ts';
import volumeDataSource from './volume/data-source/volume-data-source-controller.ts';
import volumeExpansion from './volume/expansion/volume-expansion-controller.ts';
import { attributesClassProtection, claimProtection, volumeProtection } from './volume/protection/volume-protection-controllers.ts';

/** The controllers of every cluster. `cluster.yaml` can disable a controller by name, or replace it by another plugin with the same name. */
export const builtin: readonly Plugin[] = [
  serviceAccount,
  rootCa,
  namespace,
  garbageCollector,
  deployment,
  replicaSet,
  replicationController,
  statefulSet,
  daemonSet,
  job,
  cronJob,
  ttlAfterFinished,
  disruption,
  horizontalPodAutoscaler,
  endpoints,
  endpointSlice,
  endpointSliceMirroring,
  nodeIpam,
  ipBlocksController,
  nodeLifecycle,
  taintEviction,
  ttl,
  podGc,
  persistentVolume,
  attachDetach,
  claimProtection,
  volumeProtection,
  attributesClassProtection,
  ephemeralVolume,
  volumeExpansion,
  volumeDataSource,
  resourceClaim,
  deviceTaintEviction,
  storageVersionMigration,
  validatingAdmissionPolicyStatus,
  serviceCidr,
  serviceLoadBalancer,
  cloudNode,
  route,
  ...securityControllers,
];
