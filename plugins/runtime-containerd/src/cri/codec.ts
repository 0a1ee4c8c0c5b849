import { MessageTable, type Codec } from '@oarlock/grpc/message-table';
import { containerdMessages } from './containerd-messages.ts';
import { criEnums, criMessages } from './cri-messages.ts';

/** A node has thousands of containers, each with labels and annotations. */
const maxFields = 2_000_000;
const tables = { cri: new MessageTable(criMessages, criEnums, { maxFields }), containerd: new MessageTable(containerdMessages) };

/** Returns the codec of the named message. The message table is built on first use. */
export const codec = <T extends object>(table: keyof typeof tables, message: string): Codec<T> => tables[table].codec<T>(message);
