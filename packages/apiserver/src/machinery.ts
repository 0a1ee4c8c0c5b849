import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { AdmissionChain } from './admission-chain.ts';
import type { ObjectStore } from './object-store.ts';
import type { Random } from './random.ts';
import type { Reader } from './registry-read.ts';
import type { ServedKind } from './served-kind.ts';

/** What the stages below authorization work with. */
export interface Machinery {
  readonly objects: ObjectStore;
  readonly reader: Reader;
  readonly admission: AdmissionChain;
  readonly authz: readonly Authorizer[];
  readonly authn: readonly Authenticator[];
  readonly facts: ClusterFacts;
  readonly keys: ClusterKeys;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** By `group/version/resource`. */
  kind(group: string, version: string, resource: string): ServedKind;
}
