import { GrpcError } from '@oarlock/grpc/grpc-error';
import { errorText } from '@oarlock/primitives/error-text';

/** Returns the text of an error for events and conditions: a failed call of the driver as Kubernetes' sidecars report it. */
export const callErrorText = (error: unknown): string => (error instanceof GrpcError ? error.rpcText : errorText(error));
