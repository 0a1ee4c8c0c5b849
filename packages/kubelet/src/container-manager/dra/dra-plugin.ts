import { UnixClient } from '@oarlock/grpc/unix-client';
import type { RegistrationInfo } from '@oarlock/grpc/registration-client';
import { draPluginMessages, type ClaimReference, type PreparedDevice } from './dra-plugin-messages.ts';

/** gRPC services by the version that a driver registers, best first. */
const services = {
  'v1.DRAPlugin': 'k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin',
  'v1beta1.DRAPlugin': 'k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin',
} as const;
/** Upstream's timeout: preparing may take long. Milliseconds. */
const timeoutMs = 45_000;

/** One registered DRA driver of this node. */
export class DRAPlugin {
  readonly name: string;
  readonly #service: string;
  readonly #client: UnixClient;

  /** @throws Error if the driver has no supported version */
  constructor({ name, endpoint, supportedVersions }: RegistrationInfo) {
    const spoken = Object.entries(services).find(([version]) => supportedVersions.includes(version));
    if (!spoken)
      throw new Error(
        `the DRA driver ${name} speaks ${supportedVersions.join(', ') || 'nothing'}; one of ${Object.keys(services).join(', ')} is needed`,
      );
    this.name = name;
    this.#service = spoken[1];
    this.#client = new UnixClient({ socket: endpoint, table: draPluginMessages, timeoutMs });
  }

  /** Prepares a claim's devices. Idempotent. @throws GrpcError; Error with the driver's message */
  async prepareClaim(claim: ClaimReference, signal: AbortSignal): Promise<readonly PreparedDevice[]> {
    const { claims = {} } = await this.#client.call<{
      readonly claims?: Readonly<Record<string, { readonly devices?: readonly PreparedDevice[]; readonly error?: string }>>;
    }>(this.#service, 'NodePrepareResources', { claims: [claim] }, { signal });
    const answer = claims[claim.uid];
    if (!answer) throw new Error(`NodePrepareResources left out claim ${claim.namespace}/${claim.name}`);
    if (answer.error) throw new Error(`NodePrepareResources failed for claim ${claim.namespace}/${claim.name}: ${answer.error}`);
    return answer.devices ?? [];
  }

  /** @throws GrpcError; Error with the driver's message */
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
