import { readFile } from 'node:fs/promises';
import type { HttpClient } from '@oarlock/client/http/client';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { RenewedCertificate } from '@oarlock/primitives/net/renewed-certificate';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Client, EventRecorderFactory } from '@oarlock/spi/client';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { JoinedNode, Plan } from './composition/plan.ts';
import { addressTowardsAny } from './process/addresses.ts';
import { adminKubeconfig } from './process/process-state.ts';
import { CertificateMonitor, type TrackedCertificate } from './pki/certificate-monitor.ts';
import { kubeconfig } from './pki/kubeconfig.ts';
import type { KeyFiles } from './pki/keys.ts';
import { NodeCertificates } from './pki/node-certificates.ts';
import type { ProcessStorageServer } from './pki/storage-server.ts';

export interface ProcessCertificatesOptions {
  readonly dataDir: string;
  readonly plan: Plan;
  /** The keys of a process with an API server. */
  readonly keyFiles: KeyFiles | undefined;
  readonly storageServer: ProcessStorageServer;
  readonly events: EventRecorderFactory;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Access of a node that joined to its cluster. */
export interface NodeAccess {
  readonly joined: JoinedNode;
  readonly client: Client & Partial<Pick<HttpClient, 'updateCertificates'>>;
  /** Returns the URLs of the API servers. */
  readonly servers: () => readonly string[];
}

/** The object of events about the certificates of a server, as of other events about the cluster's own configuration. */
const clusterObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'kube-system', name: 'oarlock-config' } } as const;

/** The certificates that a process keeps valid while it runs: those of the administrator and of a node that joined. Monitors the ends of all. */
export class ProcessCertificates {
  readonly #options: ProcessCertificatesOptions;
  readonly #monitor: CertificateMonitor;
  #admin: { readonly certificate: RenewedCertificate; current: KeyPair } | undefined;
  #node: NodeCertificates | undefined;
  #joined: JoinedNode | undefined;

  constructor(options: ProcessCertificatesOptions) {
    this.#options = options;
    const { plan, events, clock, log } = options;
    const recorder = events.recorder('oarlock', plan.nodeName);
    this.#monitor = new CertificateMonitor({
      certificates: () => this.#list(),
      warn: (reason, message) => recorder.event(this.#regarding, 'Warning', reason, message),
      clock,
      log,
    });
  }

  get metrics(): CertificateMonitor['metrics'] {
    return this.#monitor.metrics;
  }

  /** Writes the kubeconfig of the administrator, and again when its certificate is renewed. */
  async keepAdminKubeconfig(): Promise<void> {
    const { dataDir, plan, keyFiles, clock, log } = this.#options;
    if (keyFiles === undefined) return;
    const { keys } = keyFiles;
    const { name: cluster, serverUrl: server } = plan.facts;
    const write = (client: KeyPair) =>
      writeAtomic(adminKubeconfig(dataDir), kubeconfig({ cluster, server, ca: keys.caBundle, user: 'admin', client }));
    const certificate = new RenewedCertificate({
      issue: () => keys.issue({ commonName: 'kubernetes-admin', organizations: ['system:masters'], usages: ['client'] }),
      onRenew: async (pair) => {
        await write(pair);
        this.#admin = { certificate, current: pair };
      },
      onFailure: (error) => log.error({ err: error }, 'renewing the certificate of admin.kubeconfig failed'),
      clock,
    });
    this.#admin = { certificate, current: await certificate.start() };
    await write(this.#admin.current);
  }

  /** Renews the certificates of a node that joined. */
  async keepNodeCertificates({ joined, client, servers }: NodeAccess): Promise<void> {
    const { plan, clock, log } = this.#options;
    const { certificateFile, keyFile, kubeconfigFile } = joined;
    if (kubeconfigFile === undefined) return;
    const address = (signal: AbortSignal) => addressTowardsAny(servers(), signal);
    this.#joined = joined;
    this.#node = new NodeCertificates({
      ...{ nodeName: plan.nodeName, certificateFile, keyFile, kubeconfigFile, client, address, clock, log },
      renewed: (credentials) => client.updateCertificates?.(credentials),
    });
    const node = this.#node;
    this.#monitor.addKubeletMetrics(() => node.renewErrors);
    await node.start();
  }

  /** Monitors the ends of the certificates until `stop`. */
  monitor(): Promise<void> {
    return this.#monitor.start();
  }

  async stop(): Promise<void> {
    await this.#monitor.stop();
    this.#admin?.certificate.stop();
    await this.#node?.stop();
  }

  get #regarding() {
    const { nodeName } = this.#options.plan;
    return this.#joined === undefined ? clusterObject : { apiVersion: 'v1', kind: 'Node', metadata: { name: nodeName, uid: nodeName } };
  }

  async #list(): Promise<readonly TrackedCertificate[]> {
    const { keyFiles, storageServer } = this.#options;
    const tracked: TrackedCertificate[] = [];
    if (keyFiles !== undefined) {
      const { keys, serverCertificates } = keyFiles;
      const named = {
        ca: keys.caBundle,
        'front-proxy-ca': keys.frontProxy?.caBundle,
        'kubernetes-admin': this.#admin?.current.certificate,
      };
      for (const [name, certificate] of [...Object.entries(named), ...serverCertificates, ...storageServer.certificates])
        if (certificate) tracked.push({ name, certificate });
    }
    if (this.#node !== undefined) tracked.push({ name: 'kubelet-client', certificate: await this.#node.clientCertificate() });
    if (this.#joined !== undefined)
      tracked.push({ name: 'kubelet-server', certificate: await readFile(this.#joined.certificateFile, 'utf8') });
    return tracked;
  }
}
