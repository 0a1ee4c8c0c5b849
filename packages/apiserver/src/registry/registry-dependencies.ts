import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { AdmissionChain } from '../admission/admission-chain.ts';
import type { ObjectStore } from './object-store.ts';
import type { RandomSource } from './random.ts';
import type { Reader } from './reader.ts';
import type { ServedKind } from './served-kind.ts';

/** The dependencies of the handlers: store, reader, admission, authorizers, clock. */
export interface RegistryDependencies {
  readonly objects: ObjectStore;
  readonly reader: Reader;
  readonly admission: AdmissionChain;
  readonly authz: readonly Authorizer[];
  readonly authn: readonly Authenticator[];
  readonly clusterFacts: ClusterFacts;
  readonly clusterKeys: ClusterKeys;
  readonly clock: Clock;
  readonly random: RandomSource;
  readonly log: Logger;
  /** Returns the served kind of a group, version and resource. @throws StatusError NotFound if the resource is not served */
  servedKind(group: string, version: string, resource: string): ServedKind;
}
