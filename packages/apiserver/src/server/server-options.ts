import type { ConnectionConfig } from '../http/connection-limits.ts';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { AuditSink } from '@oarlock/spi/audit';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { LoopbackEndpoint } from '@oarlock/spi/loopback';
import type { PathHandler } from '@oarlock/spi/paths';
import type { ProcessView } from '@oarlock/spi/process';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { Workers } from '@oarlock/spi/workers';
import type { RuntimeConfig } from '../pipeline/runtime-config.ts';
import type { ServingCertificateVerification } from '../proxy/proxy-client-certificate.ts';
import type { EncryptionConfig } from '../storage/encryption/encryption-config.ts';

export interface ApiServerConfig {
  readonly listen: { readonly address: string; readonly port: number };
  readonly advertiseAddress?: string | undefined;
  readonly certSANs: readonly string[];
  readonly neverProxied?: readonly string[];
  readonly requestTimeoutSeconds: number;
  readonly compactionIntervalSeconds?: number;
  readonly maxRequestsInflight: number;
  readonly maxMutatingRequestsInflight: number;
  readonly maxStreamsPerConnection: number;
  readonly connections: ConnectionConfig;
  readonly drainSeconds: number;
  readonly encryption?: EncryptionConfig | undefined;
  readonly auditPolicy?: string | undefined;
  readonly defaultAuditPolicy?: boolean;
  readonly runtimeConfig: RuntimeConfig;
  readonly verifyKubelets: ServingCertificateVerification;
}

export interface ApiServerDependencies {
  readonly config: ApiServerConfig;
  readonly storage: StorageDriver;
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  readonly audit: readonly AuditSink[];
  readonly loopback: LoopbackEndpoint;
  readonly cluster: ClusterFacts;
  readonly keys: ClusterKeys;
  readonly paths: readonly PathHandler[];
  readonly process: ProcessView | undefined;
  readonly localNodes?: LocalNodes | undefined;
  /** The other processes that serve the API with this one; undefined if there are none. */
  readonly workers?: Workers | undefined;
}
