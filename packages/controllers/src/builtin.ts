import type { Plugin } from '@oarlock/kernel/plugin';
import attachDetach from './attach-detach/attach-detach-controller.ts';
import cloudNode from './cloud/cloud-node-controller.ts';
import route from './cloud/route-controller.ts';
import serviceLoadBalancer from './cloud/service-load-balancer-controller.ts';
import cronJob from './cron-job/cron-job-controller.ts';
import daemonSet from './daemon-set/daemon-set-controller.ts';
import deployment from './deployment/deployment-controller.ts';
import endpointSlice from './endpoint-slice/endpoint-slice-controller.ts';
import endpoints from './endpoints/endpoints-controller.ts';
import endpointSliceMirroring from './endpoint-slice-mirroring/endpoint-slice-mirroring-controller.ts';
import ephemeralVolume from './ephemeral-volume/ephemeral-volume-controller.ts';
import deviceTaintEviction from './device-taint-eviction/device-taint-eviction-controller.ts';
import disruption from './disruption/disruption-controller.ts';
import garbageCollector from './garbage-collector/garbage-collector.ts';
import horizontalPodAutoscaler from './horizontal-pod-autoscaler/horizontal-pod-autoscaler-controller.ts';
import ipBlocksController from './ip-blocks/ip-blocks-controller.ts';
import job from './job/job-controller.ts';
import namespace from './namespace/namespace-controller.ts';
import nodeIpam from './node-ipam/node-ipam-controller.ts';
import nodeLifecycle from './node-lifecycle/node-lifecycle-controller.ts';
import persistentVolume from './persistent-volume/persistent-volume-controller.ts';
import podGc from './pod-gc/pod-gc-controller.ts';
import replicaSet from './replica-set/replica-set-controller.ts';
import replicationController from './replication-controller/replication-controller.ts';
import resourceClaim from './resource-claim/resource-claim-controller.ts';
import rootCa from './root-ca/root-ca-controller.ts';
import { security } from './security.ts';
import serviceAccount from './service-account/service-account-controller.ts';
import serviceCidr from './service-cidr/service-cidr-controller.ts';
import statefulSet from './stateful-set/stateful-set-controller.ts';
import storageVersionMigration from './storage-version-migration/storage-version-migration-controller.ts';
import taintEviction from './taint-eviction/taint-eviction-controller.ts';
import ttlAfterFinished from './ttl-after-finished/ttl-after-finished-controller.ts';
import volumeDataSource from './volume-data-source/volume-data-source-controller.ts';
import volumeExpansion from './volume-expansion/volume-expansion-controller.ts';
import { claimProtection, volumeProtection } from './volume-protection/volume-protection-controllers.ts';

/** The loops of every cluster. `cluster.yaml` switches one off by name, or puts another plugin of the same name in its place. */
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
  podGc,
  persistentVolume,
  attachDetach,
  claimProtection,
  volumeProtection,
  ephemeralVolume,
  volumeExpansion,
  volumeDataSource,
  resourceClaim,
  deviceTaintEviction,
  storageVersionMigration,
  serviceCidr,
  serviceLoadBalancer,
  cloudNode,
  route,
  ...security,
];
