import { runtimeContract } from '@oarlock/spi/runtime/contract';
import { loopbackNetwork, missingForRunc, openRuntime } from './support/fixture.ts';

const missing = missingForRunc();
const where = missing === undefined ? {} : { unavailable: missing };
runtimeContract('runtime-oci with runc', () => openRuntime(), where);
runtimeContract('runtime-oci with runc and network namespaces', () => openRuntime(loopbackNetwork()), where);
