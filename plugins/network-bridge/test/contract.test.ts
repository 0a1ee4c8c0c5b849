import { networkContract } from '@oarlock/spi/network/contract';
import { openBridge, whyNot } from './support/bridge-fixture.ts';

const unavailable = await whyNot();
networkContract('network-bridge', () => openBridge(), unavailable === undefined ? {} : { unavailable });
