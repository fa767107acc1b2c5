// A PLC over libmodbus: it triggers parts at a rate, and holds the gateway to its promises. For each part it tells the
// camera, by UDP, to send it; truth() says what the part is, so that it knows whether a verdict is of that very part.
//
//	plc HOST PORT CAMERA_PORT FIRST_ID COUNT RATE print|quiet
//
// Once a second and at the end it writes "S name=count ...", and "V text" for each broken promise. With "print" it
// writes "R id nanoseconds verdict" for each answer, by the real-time clock.
#include <arpa/inet.h>
#include <errno.h>
#include <modbus/modbus.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PASS = 0xA5C3, FAIL = 0x96F0, REJECT = 0x3C69 };
enum { ENABLE = 1, TRIGGER = 2, RESULTS_ACK = 4 };
enum { READY_BIT = 2, TRIGGER_ACK = 4, VALID = 16 };
enum { PREPARE = 2, CONTINUOUS = 5, RESET = 7, ACK_ERROR = 11 };
enum { INPUTS = 112, HOLDINGS = 24, MOST = 12, REMEMBERED = 40 };

static modbus_t *ctx;
static const char *host;
static int port, camera, printing;
static struct sockaddr_in camera_addr;
static uint16_t out[HOLDINGS], in[INPUTS];
static long triggers, accepted, refused, answered, passed, failed, rejected, lost, unsure, repeated, links, violations;
static long reasons[16];

struct part {
	uint32_t id, sequence;
	uint16_t verdict;
	double since;
};
static struct part waiting[MOST + 1];
static int outstanding;
static struct part done[REMEMBERED]; // the last ones, to be repeated
static int ndone;
static uint32_t last_sequence;

static double now(clockid_t c) {
	struct timespec t;
	clock_gettime(c, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void violation(const char *format, ...) {
	va_list args;
	va_start(args, format);
	printf("V ");
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
	violations++;
}

static void status(void) {
	printf("S triggers=%ld accepted=%ld refused=%ld answered=%ld pass=%ld fail=%ld reject=%ld lost=%ld unsure=%ld repeated=%ld links=%ld "
	       "violations=%ld late=%ld server_lost=%ld overrun=%ld\n",
	       triggers, accepted, refused, answered, passed, failed, rejected, lost, unsure, repeated, links, violations, reasons[3],
	       reasons[5], reasons[6]);
	fflush(stdout);
}

// truth is the same as that of the camera.
static uint32_t hash(uint32_t id) { return id * 2654435761u >> 8; }
static int missing(uint32_t id) { return !printing && hash(id) % 97 == 0; } // those behind it wait for its deadline
static int good(uint32_t id) { return hash(id) % 4 != 0; }
static float value(uint32_t id) { return (good(id) ? 100 : 0) + hash(id) % 100; }

static uint32_t dword(const uint16_t *w) { return (uint32_t)w[0] << 16 | w[1]; }

// cycle writes the image and reads the inputs. It returns -1 where the link is lost.
static int cycle(void) {
	out[2]++;
	if (modbus_write_registers(ctx, 0, HOLDINGS, out) != HOLDINGS) return -1;
	if (modbus_read_input_registers(ctx, 0, INPUTS, in) != INPUTS) return -1;
	if (in[0] != 1) violation("map version %d", in[0]);
	if ((in[10] ^ in[11]) != 0xFFFF) violation("verdict %04x and complement %04x", in[10], in[11]);
	if (dword(in + 8) != dword(in + 110)) violation("torn within one response");
	if (!(in[2] & VALID) && (in[10] != REJECT || dword(in + 6) || dword(in + 8))) violation("not valid, and verdict %04x of trigger %u", in[10], dword(in + 6));
	return 0;
}

static int command(uint16_t c) {
	for (int step = 0; step < 2; step++) {
		double until = now(CLOCK_MONOTONIC) + 3;
		out[0] = step ? 0 : c;
		do {
			if (cycle() < 0 || now(CLOCK_MONOTONIC) > until) return -1;
		} while (in[4] != out[0]);
		if (step == 0 && in[5]) return -1;
	}
	return 0;
}

// link makes the connection and the station ready. What was on its way is lost, and the PLC knows it.
static void relink(void) {
	lost += outstanding;
	outstanding = ndone = 0;
	last_sequence = 0;
	for (;; usleep(20000)) {
		links++;
		if (ctx) {
			modbus_close(ctx);
			modbus_free(ctx);
		}
		ctx = modbus_new_tcp(host, port);
		modbus_set_response_timeout(ctx, 1, 0);
		if (modbus_connect(ctx) < 0) continue;
		memset(out, 0, sizeof out);
		out[1] = ENABLE;
		out[3] = 1;
		if (command(ACK_ERROR) < 0 || command(RESET) < 0) continue;
		if (in[36] == 0 && command(PREPARE) < 0) continue; // the server may be away
		if (command(CONTINUOUS) < 0) continue;
		return;
	}
}

static void name(uint32_t id) {
	char text[33] = {0};
	snprintf(text, sizeof text, "P%u", id);
	for (int i = 0; i < 16; i++) out[8 + i] = (uint8_t)text[2 * i] << 8 | (uint8_t)text[2 * i + 1];
	out[5] = id >> 16;
	out[6] = id;
}

// result takes the answer that is presented.
static void result(void) {
	uint32_t id = dword(in + 6), sequence = dword(in + 8);
	if (dword(in + 104) != id) violation("trigger %u, and again %u", id, dword(in + 104));
	for (int i = 0; i < ndone; i++)
		if (done[i].id == id) {
			if (done[i].sequence != sequence || done[i].verdict != in[10])
				violation("trigger %u: verdict %04x number %u, before %04x number %u", id, in[10], sequence, done[i].verdict, done[i].sequence);
			repeated++;
			return;
		}
	int i = 0;
	while (i < outstanding && waiting[i].id != id) i++;
	if (i == outstanding) {
		violation("an answer to trigger %u, which waits for none", id);
		return;
	}
	if (i != 0) violation("trigger %u answered before %u", id, waiting[0].id);
	if (sequence <= last_sequence) violation("sequence %u after %u", sequence, last_sequence);
	last_sequence = sequence;
	memmove(waiting + i, waiting + i + 1, (outstanding - i - 1) * sizeof *waiting);
	outstanding--;
	answered++;
	reasons[in[16] & 15]++;
	union {
		uint32_t u;
		float f;
	} v = {dword(in + 40)};
	switch (in[10]) {
	case PASS:
		passed++;
		if (missing(id) || !good(id) || v.f != value(id)) violation("PASS of trigger %u: value %f, truth %f", id, v.f, value(id));
		break;
	case FAIL:
		failed++;
		if (missing(id) || good(id) || v.f != value(id)) violation("FAIL of trigger %u: value %f, truth %f", id, v.f, value(id));
		break;
	case REJECT:
		rejected++;
		if (in[16] < 3) violation("REJECT of trigger %u with reason %d", id, in[16]);
		break;
	default:
		violation("verdict %04x", in[10]);
	}
	if (printing) printf("R %u %.0f %04x\n", id, now(CLOCK_REALTIME) * 1e9, in[10]);
	if (ndone == REMEMBERED) memmove(done, done + 1, (--ndone) * sizeof *done);
	done[ndone++] = (struct part){id, sequence, in[10], 0};
}

int main(int argc, char **argv) {
	if (argc != 8) return 2;
	host = argv[1];
	port = atoi(argv[2]);
	uint32_t next = strtoul(argv[4], 0, 10);
	long count = atol(argv[5]);
	double period = 1 / atof(argv[6]);
	printing = strcmp(argv[7], "print") == 0;
	camera = socket(AF_INET, SOCK_DGRAM, 0);
	camera_addr.sin_family = AF_INET;
	camera_addr.sin_port = htons(atoi(argv[3]));
	camera_addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	srand(next);
	relink();
	double due = now(CLOCK_MONOTONIC), told = due;
	uint32_t asked = 0; // the trigger that is set
	while (triggers < count || outstanding) {
		double t = now(CLOCK_MONOTONIC);
		if (t - told >= 1) {
			status();
			told = t;
		}
		if (!printing && rand() % 4000 == 0) usleep(rand() % 60000); // a slow poll
		if (!printing && rand() % 60000 == 0) usleep(700000);        // so slow that the heartbeat is stale
		if (!(out[1] & (TRIGGER)) && t >= due && triggers < count && outstanding < MOST) {
			due = t - due > 0.1 ? t + period : due + period; // what could not be asked in time isn't made up for
			asked = next;
			if (!printing && ndone && rand() % 64 == 0) {
				asked = done[ndone - 1 - rand() % (ndone < 8 ? ndone : 8)].id; // again
			} else {
				next++;
				triggers++;
				if (!missing(asked)) {
					uint32_t message = htonl(asked);
					sendto(camera, &message, sizeof message, 0, (struct sockaddr *)&camera_addr, sizeof camera_addr);
				}
			}
			name(asked);
			out[1] |= TRIGGER;
		} else {
			out[1] &= ~TRIGGER;
		}
		int set = out[1] & TRIGGER;
		if (cycle() < 0 || in[1] == 1) { // no link, or another gateway
			if (set) unsure++; // whether it was accepted nobody told; lost are those of which it was
			relink();
			continue;
		}
		if (set && !(in[2] & TRIGGER_ACK)) refused++;
		if (set && in[2] & TRIGGER_ACK) {
			if (dword(in + 32) != asked) violation("trigger %u acknowledged as %u", asked, dword(in + 32));
			int again = 0;
			for (int i = 0; i < ndone; i++) again |= done[i].id == asked;
			if (!again) {
				waiting[outstanding++] = (struct part){asked, 0, 0, t};
				accepted++;
			}
		}
		if (in[2] & VALID && !(out[1] & RESULTS_ACK)) {
			result();
			out[1] |= RESULTS_ACK;
		} else if (!(in[2] & VALID)) {
			out[1] &= ~RESULTS_ACK;
		}
		if (outstanding && now(CLOCK_MONOTONIC) - waiting[0].since > 10) {
			violation("no answer to trigger %u in 10 s", waiting[0].id);
			relink();
		}
	}
	cycle(); // acknowledges the last answer
	out[1] = 0;
	cycle();
	status();
	printf("END\n");
	return violations ? 1 : 0;
}
