import { runtimeContract } from '@oarlock/spi/runtime/contract';
import { isPrivileged, loopbackNetwork, missingUserIsolation, openRuntime, openRuntimeAsUser } from './support/fixture.ts';

runtimeContract('runtime-process, as any user', () => openRuntime({ namespaces: false, cgroups: false }));
const privileged = isPrivileged ? {} : { unavailable: 'namespaces need root' };
runtimeContract('runtime-process, as root', () => openRuntime(), privileged);
runtimeContract('runtime-process, with network namespaces', () => openRuntime({}, loopbackNetwork()), privileged);
const missing = missingUserIsolation();
runtimeContract('runtime-process, isolated as an ordinary user', openRuntimeAsUser, missing === undefined ? {} : { unavailable: missing });
