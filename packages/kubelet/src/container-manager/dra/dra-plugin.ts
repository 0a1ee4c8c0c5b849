import { UnixClient } from '@oarlock/grpc/unix-client';
import type { RegistrationInfo } from '@oarlock/grpc/registration-client';
import { draPluginMessages, type ClaimReference, type PreparedDevice } from './dra-plugin-messages.ts';

/** The gRPC service of each DRA version that a driver may register, newest first. */
const services = {
  'v1.DRAPlugin': 'k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin',
  'v1beta1.DRAPlugin': 'k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin',
} as const;
/** The timeout of calls to DRA drivers, as upstream: preparing devices may take long. Milliseconds. */
const timeoutMs = 45_000;

/** A registered DRA driver of this node. */
export class DRAPlugin {
  readonly name: string;
  /** The path of the driver's socket. */
  readonly endpoint: string;
  readonly #service: string;
  readonly #client: UnixClient;

  /** @throws Error if the driver supports no version that the kubelet supports */
  constructor({ name, endpoint, supportedVersions }: RegistrationInfo) {
    const spoken = Object.entries(services).find(([version]) => supportedVersions.includes(version));
    if (!spoken)
      throw new Error(
        `the DRA driver ${name} speaks ${supportedVersions.join(', ') || 'nothing'}; one of ${Object.keys(services).join(', ')} is needed`,
      );
    this.name = name;
    this.endpoint = endpoint;
    this.#service = spoken[1];
    this.#client = new UnixClient({ socket: endpoint, table: draPluginMessages, timeoutMs });
  }

  /**
   * Calls NodePrepareResources for one ResourceClaim and returns its devices. Idempotent.
   * @throws GrpcError if the call fails, Error if the driver reports an error for the ResourceClaim
   */
  async prepareClaim(claim: ClaimReference, signal: AbortSignal): Promise<readonly PreparedDevice[]> {
    const { claims = {} } = await this.#client.call<{
      readonly claims?: Readonly<Record<string, { readonly devices?: readonly PreparedDevice[]; readonly error?: string }>>;
    }>(this.#service, 'NodePrepareResources', { claims: [claim] }, { signal });
    const answer = claims[claim.uid];
    if (!answer) throw new Error(`NodePrepareResources left out claim ${claim.namespace}/${claim.name}`);
    if (answer.error) throw new Error(`NodePrepareResources failed for claim ${claim.namespace}/${claim.name}: ${answer.error}`);
    return answer.devices ?? [];
  }

  /**
   * Calls NodeUnprepareResources for one ResourceClaim. Idempotent.
   * @throws GrpcError if the call fails, Error if the driver reports an error for the ResourceClaim
   */
  async unprepareClaim(claim: ClaimReference, signal: AbortSignal): Promise<void> {
    const { claims = {} } = await this.#client.call<{ readonly claims?: Readonly<Record<string, { readonly error?: string }>> }>(
      this.#service,
      'NodeUnprepareResources',
      { claims: [claim] },
      { signal },
    );
    const answer = claims[claim.uid];
    if (!answer) throw new Error(`NodeUnprepareResources left out claim ${claim.namespace}/${claim.name}`);
    if (answer.error) throw new Error(`NodeUnprepareResources failed for claim ${claim.namespace}/${claim.name}: ${answer.error}`);
  }

  close(): void {
    this.#client.close();
  }
}
