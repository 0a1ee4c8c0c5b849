import { runtimeContract } from '@oarlock/spi/runtime/contract';
import {
  loopbackNetwork,
  missingForMappedUsers,
  missingForRoot,
  missingForRunc,
  missingForUser,
  openRuntime,
  runcMode,
} from './support/fixture.ts';

const when = (missing: string | undefined) => (missing === undefined ? {} : { unavailable: missing });
runtimeContract('runtime-oci with runc', () => openRuntime(), when(missingForRunc()));
runtimeContract(
  'runtime-oci with runc and network namespaces',
  () => openRuntime(runcMode(), { network: loopbackNetwork() }),
  when(missingForRunc()),
);
const withoutRunc = { program: 'unshare', user: 'root' } as const;
runtimeContract('runtime-oci as root without runc', () => openRuntime(withoutRunc, { network: loopbackNetwork() }), when(missingForRoot()));
runtimeContract('runtime-oci as an ordinary user', () => openRuntime({ program: 'unshare', user: 'user' }), when(missingForUser()));
runtimeContract(
  'runtime-oci in a user namespace with many users',
  () => openRuntime({ ...runcMode(), mapped: true }, { mapped: true }),
  when(missingForMappedUsers()),
);
