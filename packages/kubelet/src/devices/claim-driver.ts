import { UnixClient } from '@oarlock/grpc/unix-client';
import type { RegisteringPlugin } from '@oarlock/grpc/plugin-registration';
import { claimMessages, type ClaimName, type PreparedDevice } from './claim-messages.ts';

/** By what a driver says that it speaks, the best first. */
const services = {
  'v1.DRAPlugin': 'k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin',
  'v1beta1.DRAPlugin': 'k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin',
} as const;
/** As upstream has it: preparing may take long. */
const timeoutMs = 45_000;

/** One DRA driver of this node. */
export class ClaimDriver {
  readonly name: string;
  readonly #service: string;
  readonly #client: UnixClient;

  /** @throws Error when the plugin speaks nothing that is understood here */
  constructor({ name, endpoint, supportedVersions }: RegisteringPlugin) {
    const spoken = Object.entries(services).find(([version]) => supportedVersions.includes(version));
    if (!spoken)
      throw new Error(
        `the DRA driver ${name} speaks ${supportedVersions.join(', ') || 'nothing'}; one of ${Object.keys(services).join(', ')} is needed`,
      );
    this.name = name;
    this.#service = spoken[1];
    this.#client = new UnixClient({ socket: endpoint, table: claimMessages, timeoutMs });
  }

  /** Makes a claim's devices ready. May be asked again for what is ready. @throws GrpcError; Error with what the driver says */
  async prepare(claim: ClaimName, signal: AbortSignal): Promise<readonly PreparedDevice[]> {
    const { claims = {} } = await this.#client.call<{
      readonly claims?: Readonly<Record<string, { readonly devices?: readonly PreparedDevice[]; readonly error?: string }>>;
    }>(this.#service, 'NodePrepareResources', { claims: [claim] }, { signal });
    const answer = claims[claim.uid];
    if (!answer) throw new Error(`NodePrepareResources left out claim ${claim.namespace}/${claim.name}`);
    if (answer.error) throw new Error(`NodePrepareResources failed for claim ${claim.namespace}/${claim.name}: ${answer.error}`);
    return answer.devices ?? [];
  }

  /** @throws GrpcError; Error with what the driver says */
  async unprepare(claim: ClaimName, signal: AbortSignal): Promise<void> {
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
