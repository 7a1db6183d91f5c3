import partner.model.CreateConsultationConflictError.CodeEnum;
import partner.model.EventType;

/** The compiler must reject these switches: a code and an event have no case. */
final class Forgetful {
  static boolean codes(CodeEnum code) {
    return switch (code) {
      case INSUFFICIENT_FUNDS, IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_PROGRESS -> true;
    };
  }

  static boolean events(EventType type) {
    return switch (type) {
      case CONSULTATION_CREATED, CONSULTATION_PAYMENT_AUTHORIZED, CONSULTATION_MATCHING, CONSULTATION_ASSIGNED, CONSULTATION_CALL_STARTED,
          CONSULTATION_CALL_ENDED, CONSULTATION_COMPLETED, CONSULTATION_NOTE_AVAILABLE, CONSULTATION_PENDING_CALLBACK, CONSULTATION_CANCELLED,
          CONSULTATION_REFUNDED -> true;
    };
  }
}
